/** Text comparison: lines of two programs, digits of two numbers. */

import type { Difference, ElementKind } from "./contract";

export interface LinePair {
  kind: "same" | "left" | "right" | "changed";
  left: number | null;
  right: number | null;
}

/** Size limit of the table of the exact diff, in cells. Above it the differing middle is shown as replaced. */
const CELLS = 4_000_000;

/** Pairs the lines of two texts. Removed lines next to added ones are shown as changed lines. */
export function lines(left: string[], right: string[]): LinePair[] {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let end = 0;
  while (
    end < left.length - start &&
    end < right.length - start &&
    left[left.length - 1 - end] === right[right.length - 1 - end]
  ) {
    end += 1;
  }
  const pairs: LinePair[] = [];
  for (let index = 0; index < start; index += 1) pairs.push({ kind: "same", left: index, right: index });
  const middle = common(left.slice(start, left.length - end), right.slice(start, right.length - end));
  let x = start;
  let y = start;
  const flush = (untilX: number, untilY: number) => {
    while (x < untilX || y < untilY) {
      const kind = x < untilX && y < untilY ? "changed" : x < untilX ? "left" : "right";
      pairs.push({ kind, left: x < untilX ? x : null, right: y < untilY ? y : null });
      if (x < untilX) x += 1;
      if (y < untilY) y += 1;
    }
  };
  for (const [a, b] of middle) {
    flush(start + a, start + b);
    pairs.push({ kind: "same", left: x, right: y });
    x += 1;
    y += 1;
  }
  flush(left.length - end, right.length - end);
  for (let index = 0; index < end; index += 1) pairs.push({ kind: "same", left: x + index, right: y + index });
  return pairs;
}

/** Returns the longest common subsequence, as pairs of indices. */
function common(left: string[], right: string[]): [number, number][] {
  const width = right.length + 1;
  if (left.length * right.length > CELLS) return [];
  const longest = new Uint32Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] =
        left[i] === right[j]
          ? longest[(i + 1) * width + j + 1]! + 1
          : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
    }
  }
  const pairs: [number, number][] = [];
  let i = 0;
  let j = 0;
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) {
      pairs.push([i, j]);
      i += 1;
      j += 1;
    } else if (longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!) i += 1;
    else j += 1;
  }
  return pairs;
}

/** Compares the digits of two numbers: returns the common prefix, and the rest of the second. */
export function digits(expected: string, actual: string): { same: string; rest: string } {
  let at = 0;
  while (at < expected.length && at < actual.length && expected[at] === actual[at]) at += 1;
  // Digits are comparable only at the same position: 12.5 and 125 have nothing in common after the 12.
  const whole = (text: string) => text.replace(/^-/, "").split(/[.e]/)[0]?.length ?? 0;
  const comparable =
    whole(expected) === whole(actual) &&
    expected.startsWith("-") === actual.startsWith("-") &&
    /e.*$/.exec(expected)?.[0] === /e.*$/.exec(actual)?.[0];
  return comparable ? { same: actual.slice(0, at), rest: actual.slice(at) } : { same: "", rest: actual };
}

/** Returns the coordinates of an element as they are shown: "(3, 17)". */
export function place(index: number[]): string {
  return `(${index.join(", ")})`;
}

/** What a solution can have written instead of the expected number, in the order of the legend. */
export const KINDS: Record<ElementKind, string> = {
  number: "another number",
  "not-a-number": "not a number, or not written",
  infinite: "infinite",
  missing: "missing",
};

/** Returns the kinds of wrong elements that occur, in the order of the legend. */
export function kinds(samples: Difference[]): ElementKind[] {
  return (Object.keys(KINDS) as ElementKind[]).filter((kind) => samples.some((sample) => sample.kind === kind));
}
