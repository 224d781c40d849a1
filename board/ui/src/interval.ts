/** Comparison of measured times by their confidence intervals. */

/** A time with its 95 % confidence interval. Without one, both ends are the time itself. */
export interface Interval {
  time: number;
  low: number;
  high: number;
}

/** Returns a time with its interval; null if it was not measured. */
export function interval(
  time: number | null | undefined,
  low: number | null | undefined,
  high: number | null | undefined,
): Interval | null {
  if (time == null || !(time > 0)) return null;
  return { time, low: low ?? time, high: high ?? time };
}

export type Change =
  | { kind: "same" }
  | {
      kind: "faster" | "slower";
      /** Ratio of the times, at least 1. */
      times: number;
      /** Least and largest ratio that the intervals allow. */
      low: number;
      high: number;
    };

/** Compares the second time with the first. If the intervals overlap, the measurements do not tell the times apart. */
export function change(first: Interval, second: Interval): Change {
  if (first.low <= second.high && second.low <= first.high) return { kind: "same" };
  const [slow, fast] = first.time > second.time ? [first, second] : [second, first];
  return {
    kind: fast === second ? "faster" : "slower",
    times: slow.time / fast.time,
    low: slow.low / fast.high,
    high: slow.high / fast.low,
  };
}

/** Returns a change in words: "1.50× faster (1.31 to 1.72)". */
export function words(found: Change): string {
  if (found.kind === "same") return "no measurable difference";
  const [times, low, high] = [found.times, found.low, found.high].map((ratio) => ratio.toFixed(2));
  const range = low === high ? "" : ` (${low} to ${high})`;
  return `${times}× ${found.kind}${range}`;
}

/** Whether another entry of a leaderboard has the same rank. */
export function tied(entries: { rank: number }[], entry: { rank: number }): boolean {
  return entries.some((other) => other !== entry && other.rank === entry.rank);
}
