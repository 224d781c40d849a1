/** Converts the results of observed runs for the editor: findings to marks, a profile to the heat of lines. */

import type { Diagnostic } from "./compiler";
import type { AccessReport, CacheHits, FindingKind, KernelReport } from "./contract";
import * as format from "./format";

export const KINDS: Record<FindingKind, string> = {
  "out-of-bounds": "Out of bounds",
  "input-write": "Write to an input",
  fault: "Fault",
  "local-race": "Race on local memory",
  "global-race": "Race on global memory",
  "uninitialised-read": "Uninitialised read",
  "same-address": "Same address",
};

/** Whether a finding is a note, which does not make the result bad. */
export function isNote(kind: FindingKind): boolean {
  return kind === "same-address";
}

/** Returns the marks of a report: one at each line of a finding. */
export function marks(report: AccessReport): Diagnostic[] {
  return report.findings.flatMap(({ kind, line, other_line, message }) =>
    [line, other_line].flatMap((number) =>
      number === null ? [] : [{ line: number, column: 1, severity: isNote(kind) ? ("note" as const) : ("error" as const), message }],
    ),
  );
}

/** Heat of one line in the editor. */
export interface Heat {
  line: number;
  /** 0 to 1. */
  share: number;
  text: string;
}

/** Returns the heat of lines: the larger one of their shares of instructions and of waiting. */
export function heat(kernel: KernelReport): Heat[] {
  return kernel.lines.flatMap(({ line, share, stalled, instructions }) =>
    line === null
      ? []
      : [
          {
            line,
            share: Math.max(share, stalled),
            text: `${format.whole(instructions)} instructions (${format.percent(share)}), waits ${format.percent(stalled)} of the time`,
          },
        ],
  );
}

/** Formats the hit rate of a cache. */
export function rate({ hits, accesses }: CacheHits): string {
  return accesses === 0 ? "–" : format.percent(hits / accesses);
}
