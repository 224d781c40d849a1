/** Result of a submission, next to the editor: stepper, verdict, cases, differences, compiler output, instructions. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as api from "../api";
import type { CustomInput, KernelReport, ProblemDetail } from "../contract";
import type { Followed } from "../follow";
import { useLoad } from "../load";
import { refused } from "../notice";
import type { Run } from "../run";
import { Benches, Tests } from "./cases";
import { Custom } from "./custom";
import { Isa } from "./isa";
import { Empty, Refused, Skeleton } from "./state";
import { Stepper } from "./stepper";
import { Verdict } from "./verdict";

interface Properties {
  followed: Followed | null;
  /** Whether the editor's text has changed since the submission. */
  changed: boolean;
  line: number | null;
  choose: (line: number) => void;
  goTo: (line: number, column: number) => void;
  profiled: (kernel: KernelReport) => void;
  problem: ProblemDetail;
  /** Whether nothing can be submitted now. */
  busy: boolean;
  runCustom: (input: CustomInput) => void;
}

type Tab = "result" | "isa" | "custom";

export function Outcome({ followed, changed, line, choose, goTo, profiled, problem, busy, runCustom }: Properties) {
  const tab = useSignal<Tab>("result");
  const run = followed?.run.value ?? null;
  useEffect(() => {
    if (run !== null) tab.value = run.endpoint === "compile" ? "isa" : "result";
  }, [run?.id]);
  const compiled = run !== null && run.kernels.length > 0;
  const shown = tab.value === "isa" && !compiled ? "result" : tab.value;
  const choice = (name: Tab, label: string, disabled = false) => (
    <button type="button" role="tab" aria-selected={shown === name} disabled={disabled} onClick={() => (tab.value = name)}>
      {label}
    </button>
  );
  const tabs = (
    <div class="segments" role="tablist" aria-label="Views of the result">
      {choice("result", "Result")}
      {choice("isa", "Instructions", !compiled)}
      {choice("custom", "Custom input")}
    </div>
  );
  const form = <Custom slug={problem.slug} form={problem.custom} busy={busy} run={runCustom} />;
  if (followed === null || run === null) {
    return (
      <section class="outcome" aria-label="Result">
        <div class="outcome-tabs">{tabs}</div>
        {shown === "custom" ? (
          <div class="outcome-body">{form}</div>
        ) : (
          <Empty title="Nothing has run yet.">
            <p>
              <kbd>Ctrl '</kbd> runs the sample, <kbd>Ctrl ⏎</kbd> submits: compile, check, measure.
            </p>
          </Empty>
        )}
      </section>
    );
  }
  return (
    <section class="outcome" aria-label="Result">
      <div class="outcome-head">
        <Stepper run={run} connected={followed.connected.value} />
      </div>
      <div class="outcome-tabs">
        {tabs}
        {!followed.connected.value && run.end === null && <span class="chip warn">reconnecting</span>}
        {changed && (
          <span class="chip" title="Lines and results refer to the submitted source">
            code changed since
          </span>
        )}
        <span class="space" />
        {run.end === null ? (
          <button
            type="button"
            class="button small"
            onClick={() => api.cancel(run.id).catch(refused)}
          >
            Cancel
          </button>
        ) : (
          <a class="button small" href={`/submissions/${run.id}`}>
            Details
          </a>
        )}
      </div>
      <div class="outcome-body" tabIndex={0} role="group" aria-label="Result details">
        {shown === "custom" ? (
          form
        ) : followed.failure.value !== "" ? (
          <Refused refusal={new api.Refusal(0, followed.failure.value)} />
        ) : shown === "isa" ? (
          <IsaOf run={run} line={line} choose={choose} />
        ) : (
          <>
            <Verdict run={run} goTo={goTo} profiled={profiled} />
            <Benches benches={run.benches} total={run.totalBenches} busy={run.end === null} />
            <Tests tests={run.tests} total={run.totalTests} busy={run.end === null && run.reached !== "bench"} />
          </>
        )}
      </div>
    </section>
  );
}

function IsaOf({ run, line, choose }: { run: Run; line: number | null; choose: (line: number) => void }) {
  const load = useLoad(async () => run.end?.isa ?? (await api.isa(run.id)), [run.id, run.end !== null]);
  const now = load.now.value;
  if (now.value === null) {
    // The disassembly is stored when the submission ends; until then an error is expected.
    return now.state === "refused" && run.end !== null ? (
      <Refused refusal={now.refusal} again={load.again} />
    ) : (
      <div class="isa-waiting">
        {[30, 44, 38, 52, 35].map((width) => (
          <Skeleton key={width} width={`${width}%`} />
        ))}
      </div>
    );
  }
  if (now.value.length === 0) return <Empty title="This submission has no stored disassembly." />;
  return <Isa isa={now.value} kernels={run.kernels} chosen={line} choose={choose} />;
}
