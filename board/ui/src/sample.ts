/** Converts the values of a sample to rows of numbers. */

import type { SampleArray } from "./contract";

/** Splits an array into rows of the last dimension. Long arrays arrive truncated. */
export function rows(array: SampleArray): (number | string)[][] {
  const columns = Math.max(1, array.shape.at(-1) ?? array.values.length);
  const found = [];
  for (let at = 0; at < array.values.length; at += columns) found.push(array.values.slice(at, at + columns));
  return found;
}

export function shown(value: number | string): string {
  return typeof value === "number" ? String(Number(value.toPrecision(6))) : value;
}

/** Whether two values differ by more than about 1e-5 relative, the precision that a sample shows. */
export function differs(one: number | string, two: number | string | undefined): boolean {
  if (one === two) return false;
  const a = Number(one);
  const b = Number(two);
  if (Number.isNaN(a) || Number.isNaN(b)) return String(one) !== String(two);
  return Math.abs(a - b) > 1e-5 * Math.max(1, Math.abs(b));
}
