/** The values of a sample as rows of numbers. */

import type { SampleArray } from "./contract";

/** Rows of the last dimension. Long arrays come cut; what is there is shown. */
export function rows(array: SampleArray): (number | string)[][] {
  const columns = Math.max(1, array.shape.at(-1) ?? array.values.length);
  const found = [];
  for (let at = 0; at < array.values.length; at += columns) found.push(array.values.slice(at, at + columns));
  return found;
}

export function shown(value: number | string): string {
  return typeof value === "number" ? String(Number(value.toPrecision(6))) : value;
}

/** A sample is small and shown to a few digits; what is within a hundred-thousandth looks the same and is. */
export function differs(one: number | string, two: number | string | undefined): boolean {
  if (one === two) return false;
  const a = Number(one);
  const b = Number(two);
  if (Number.isNaN(a) || Number.isNaN(b)) return String(one) !== String(two);
  return Math.abs(a - b) > 1e-5 * Math.max(1, Math.abs(b));
}
