/** Status of a submission, as a word and a colour. */

import type { Endpoint, Status as StatusName } from "../contract";
import * as format from "../format";

export function Status({ name, endpoint }: { name: StatusName; endpoint?: Endpoint }) {
  return <span class={`chip ${format.tone(name)}`}>{format.status(name, endpoint)}</span>;
}

export function Emulated() {
  return (
    <span class="chip emulated" title="Run on the software GPU: counts are exact, times are estimates of its performance model.">
      emulated
    </span>
  );
}

/** Badge of submissions whose outputs differ in some bits between runs. They are correct and ranked like others. */
export function NotDeterministic() {
  return (
    <span class="chip" title="Equal inputs gave different bits, within the tolerance, as sums with atomics do.">
      not deterministic
    </span>
  );
}

const LEVELS = ["easy", "medium", "hard"];

/** Difficulty, shown as one, two or three strokes. */
export function Depth({ difficulty }: { difficulty: string }) {
  const level = LEVELS.indexOf(difficulty.toLowerCase()) + 1;
  return (
    <span class={`depth level-${level}`}>
      <svg width="18" height="14" viewBox="0 0 18 14" aria-hidden="true">
        {[0, 1, 2].map((row) => (
          <path
            key={row}
            class={row < level ? "on" : "off"}
            d={`M1 ${2.5 + row * 4.500}q2 -2 4 0t4 0t4 0t4 0`}
            fill="none"
            stroke-width="1.6"
            stroke-linecap="round"
          />
        ))}
      </svg>
      {difficulty[0]?.toUpperCase()}
      {difficulty.slice(1).toLowerCase()}
    </span>
  );
}
