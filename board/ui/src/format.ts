/** Formatting of numbers, times and statuses. */

import type { Endpoint, Status } from "./contract";

const MISSING = "–";

function significant(value: number, digits: number): string {
  if (value === 0) return "0";
  // Round first: 0.9997 becomes 1.00, with two digits after the point instead of three.
  value = Number(value.toPrecision(digits));
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.max(0, Math.min(20, digits - 1 - magnitude));
  return value.toFixed(decimals);
}

/** Formats a time in the unit that keeps it between 1 and 1000. */
export function time(ms: number | null | undefined): string {
  if (ms == null || !Number.isFinite(ms)) return MISSING;
  const size = Math.abs(Number(ms.toPrecision(3)));
  if (size === 0) return "0 ms";
  if (size < 0.001) return `${significant(ms * 1e6, 3)} ns`;
  if (size < 1) return `${significant(ms * 1e3, 3)} µs`;
  if (size < 1000) return `${significant(ms, 3)} ms`;
  if (size < 60_000) return `${significant(ms / 1000, 3)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** Formats the ends of an interval of times; empty if it is not known. */
export function range(low: number | null | undefined, high: number | null | undefined): string {
  return low == null || high == null ? "" : `${time(low)} – ${time(high)}`;
}

/** Formats waves per SIMD: whole numbers, or a fraction of two decimals. */
export function waves(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return MISSING;
  return String(Number(value.toFixed(2)));
}

/** Formats a waiting time in whole seconds. */
export function wait(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return MISSING;
  if (seconds <= 0) return "none";
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** Formats a number with a metric prefix: 1.25 G. The unit, if any, follows the prefix. */
export function metric(value: number | null | undefined, unit = ""): string {
  if (value == null || !Number.isFinite(value)) return MISSING;
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && step < PREFIXES.length - 1) {
    rest /= 1000;
    step += 1;
  }
  const number = step === 0 && Number.isInteger(rest) ? String(rest) : significant(rest, 3);
  const suffix = `${PREFIXES[step] ?? ""}${unit}`;
  return suffix === "" ? number : `${number} ${suffix}`;
}

/** Formats an integer with thin spaces between thousands. */
export function whole(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return MISSING;
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** Formats a number of things: 1 user, 2 users. */
export function count(value: number, noun: string): string {
  return `${whole(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Returns the number of bytes of a text. */
export function utf8(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Formats bytes with powers of 1024. */
export function bytes(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return MISSING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= 1024 && step < units.length - 1) {
    rest /= 1024;
    step += 1;
  }
  return `${Number.isInteger(rest) ? rest : significant(rest, 3)} ${units[step]}`;
}

/** Formats dollars, with enough decimals for small sums. */
export function money(usd: number | null | undefined): string {
  if (usd == null || !Number.isFinite(usd)) return MISSING;
  if (usd === 0) return "$0";
  if (Math.abs(usd) < 0.0001) return "< $0.0001";
  if (Math.abs(usd) < 0.1) return `$${usd.toFixed(4)}`;
  return `$${usd.toFixed(2)}`;
}

/** Formats a difference or error bound: few digits, with an exponent if small or large. */
export function error(value: unknown): string {
  if (value == null) return MISSING;
  const number = typeof value === "number" ? value : Number(value);
  if (typeof value === "string" && Number.isNaN(number)) return value;
  if (!Number.isFinite(number)) return String(value);
  if (number === 0) return "0";
  const size = Math.abs(number);
  return size >= 0.001 && size < 10_000 ? significant(number, 3) : number.toExponential(1);
}

/**
 * Capitalises an error message, which is lower case at its origin. A first word that may be an identifier keeps its case: only plain
 * lower-case words change, `leaky-relu`, `problem_def` and `hipMalloc` do not.
 */
export function sentence(text: string): string {
  return /^[a-z]+(?=[\s,:]|$)/.test(text) ? text[0]!.toUpperCase() + text.slice(1) : text;
}

/** Formats how many cases fail: 3 of 4 cases fail. */
export function failing(failed: number, total: number): string {
  const noun = total === 1 ? "case" : "cases";
  return `${failed} of ${total} ${noun} ${failed === 1 ? "fails" : "fail"}`;
}

/** Formats how long ago a time was. */
export function ago(ms: number | null | undefined, now: number = Date.now()): string {
  if (ms == null || !Number.isFinite(ms)) return MISSING;
  const seconds = Math.max(0, (now - ms) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 90) return "a minute ago";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 30 * 86400) return `${Math.round(seconds / 86400)} days ago`;
  return new Date(ms).toISOString().slice(0, 10);
}

/** Formats a share as a percentage. */
export function percent(share: number | null | undefined): string {
  if (share == null || !Number.isFinite(share)) return MISSING;
  const value = share * 100;
  return `${value < 10 ? significant(value, 2) : Math.round(value)} %`;
}

const LABELS: Record<Status, string> = {
  IN_QUEUE: "In the queue",
  PROVISIONING: "Getting a GPU",
  COMPILING: "Compiling",
  COMPILED: "Compiled",
  CHECKING: "Checking",
  TEST_RESULT: "Checking",
  CHECKED: "Correct",
  BENCHMARKING: "Measuring",
  BENCHMARK_RESULT: "Measuring",
  BENCHMARKED: "Accepted",
  WRONG_ANSWER: "Wrong answer",
  COMPILE_ERROR: "Does not compile",
  RUNTIME_ERROR: "Run-time error",
  TIME_LIMIT_EXCEEDED: "Out of time",
  MEMORY_LIMIT_EXCEEDED: "Out of memory",
  REJECTED: "Rejected",
  CANCELLED: "Cancelled",
  ERROR: "Judge error",
  PASSED: "Sample passed",
  FAILED: "Sample failed",
  CLEAN: "No problems found",
  FINDINGS: "Problems found",
  PROFILED: "Profiled",
  SANDBOX_SUCCESS: "Ran",
  SANDBOX_ERROR: "Failed",
  SANDBOX_TIMEOUT: "Out of time",
  WARNING: "warning",
  ISA: "isa",
  SANDBOX_OUTPUT: "sandbox output",
};

/** Returns a readable name of a status. Samples and custom inputs end with the same statuses. */
export function status(name: Status, endpoint?: Endpoint): string {
  return endpoint === "custom" ? LABELS[name].replace("Sample", "Custom input") : LABELS[name];
}

export type Tone = "good" | "bad" | "warn" | "busy" | "plain";

/** Returns the colour of a status. */
export function tone(name: Status): Tone {
  switch (name) {
    case "CHECKED":
    case "BENCHMARKED":
    case "PASSED":
    case "CLEAN":
    case "PROFILED":
    case "SANDBOX_SUCCESS":
      return "good";
    case "COMPILED":
    case "CANCELLED":
      return "plain";
    case "TIME_LIMIT_EXCEEDED":
    case "MEMORY_LIMIT_EXCEEDED":
    case "SANDBOX_TIMEOUT":
    case "REJECTED":
      return "warn";
    case "WRONG_ANSWER":
    case "COMPILE_ERROR":
    case "RUNTIME_ERROR":
    case "ERROR":
    case "FAILED":
    case "FINDINGS":
    case "SANDBOX_ERROR":
      return "bad";
    default:
      return "busy";
  }
}
