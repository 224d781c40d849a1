/** Converts the values of a sample to rows of numbers. */

import type { ElementKind, SampleArray } from "./contract";

/** Splits an array into rows of the last dimension. Long arrays arrive truncated. */
export function rows(array: SampleArray): (number | string)[][] {
  const columns = Math.max(1, array.shape.at(-1) ?? array.values.length);
  const found = [];
  for (let at = 0; at < array.values.length; at += columns) found.push(array.values.slice(at, at + columns));
  return found;
}

export function shown(value: number | string): string {
  if (typeof value === "number") return String(Number(value.toPrecision(6)));
  switch (kind(value)) {
    case "not-a-number":
      return "not a number";
    case "infinite":
      return value.startsWith("-") ? "-infinite" : "infinite";
    default:
      return value;
  }
}

/** Returns what a value is. Numbers that JSON cannot represent are words. */
export function kind(value: number | string): ElementKind {
  if (value === "NaN") return "not-a-number";
  return value === "inf" || value === "-inf" ? "infinite" : "number";
}

/** Whether two values differ by more than about 1e-5 relative, the precision that a sample shows. */
export function differs(one: number | string, two: number | string | undefined): boolean {
  if (one === two) return false;
  const a = Number(one);
  const b = Number(two);
  if (Number.isNaN(a) || Number.isNaN(b)) return String(one) !== String(two);
  return Math.abs(a - b) > 1e-5 * Math.max(1, Math.abs(b));
}
