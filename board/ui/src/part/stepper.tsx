/** Progress of a submission. Its height is constant. */

import { type Run, spoken, steps } from "../run";
import { Icon } from "./icon";

export function Stepper({ run, connected }: { run: Run | null; connected: boolean }) {
  if (run === null) return null;
  return (
    <div class="stepper">
      <ol>
        {steps(run).map((step) => (
          <li key={step.name} class={step.state} aria-current={step.state === "active" ? "step" : undefined}>
            <span class="bullet" aria-hidden="true">
              {step.state === "done" && <Icon name="check" />}
              {step.state === "failed" && <Icon name="cross" />}
            </span>
            <span class="step-label">{step.label}</span>
            <span class="step-detail number">{step.detail || "\u00a0"}</span>
          </li>
        ))}
      </ol>
      <div class="hidden-visually" aria-live="polite" role="status">
        {spoken(run)}
        {!connected && run.end === null ? " The connection was lost; reconnecting." : ""}
      </div>
    </div>
  );
}
