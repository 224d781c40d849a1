/** State of a submission, as a pure fold over its events. */

import type { BenchmarkResult, DebugInfo, Endpoint, KernelFacts, Status, SubmissionDetail, TestResult } from "./contract";
import { ENDINGS, SUCCESSES } from "./contract";
import type { BoardEvent } from "./event";
import * as format from "./format";

export type StepName = "queue" | "compile" | "check" | "bench" | "run";
export type StepState = "waiting" | "active" | "done" | "failed" | "skipped";

export interface Step {
  name: StepName;
  label: string;
  state: StepState;
  detail: string;
}

export interface Run {
  id: string;
  endpoint: Endpoint;
  /** Number of the last event, after which a reconnected stream continues. */
  lastEvent: number;
  status: Status;
  message: string;
  position: number | null;
  expectedWait: number | null;
  compileMs: number | null;
  /** Whether the compilation result came from the cache. */
  cached: boolean;
  kernels: KernelFacts[];
  warnings: string;
  /** The current step; earlier steps are done. */
  reached: StepName;
  tests: TestResult[];
  totalTests: number | null;
  benches: BenchmarkResult[];
  totalBenches: number | null;
  wrong: DebugInfo | null;
  output: { stream: string; line: string }[];
  notes: string[];
  end: BoardEvent | null;
}

/** Most output lines of a sandbox program that a page keeps. */
const LINES_KEPT = 2000;

export function begin(id: string, endpoint: Endpoint): Run {
  return {
    id,
    endpoint,
    lastEvent: 0,
    status: "IN_QUEUE",
    message: "",
    position: null,
    expectedWait: null,
    compileMs: null,
    cached: false,
    kernels: [],
    warnings: "",
    reached: "queue",
    tests: [],
    totalTests: null,
    benches: [],
    totalBenches: null,
    wrong: null,
    output: [],
    notes: [],
    end: null,
  };
}

/** Whether a submission shows inputs and outputs instead of judging cases. */
function showsData(endpoint: Endpoint): boolean {
  return endpoint === "sample" || endpoint === "custom";
}

/** Whether an event is the last one of its submission. */
export function ends(event: BoardEvent, endpoint: Endpoint): boolean {
  return ENDINGS[endpoint].has(event.status);
}

/** Applies one event to a submission. Events that were already seen are ignored, so that replays are harmless. */
export function advance(run: Run, event: BoardEvent): Run {
  if (event.id !== undefined && event.id <= run.lastEvent) return run;
  const next: Run = { ...run, lastEvent: event.id ?? run.lastEvent };
  if (event.status === "WARNING") {
    next.notes = [...run.notes, event.message ?? ""];
    return next;
  }
  next.status = event.status;
  next.message = event.message ?? event.error ?? "";
  switch (event.status) {
    case "PROVISIONING":
      // Its code is compiled. It waits for a GPU.
      next.position = null;
      break;
    case "IN_QUEUE":
      next.position = event.position ?? null;
      next.expectedWait = event.expected_wait_s ?? null;
      // A submission that lost its worker is requeued and starts over.
      next.reached = "queue";
      next.tests = [];
      next.benches = [];
      break;
    case "COMPILING":
      next.reached = "compile";
      next.position = null;
      break;
    case "COMPILED":
      next.reached = "compile";
      next.compileMs = event.compile_ms ?? null;
      next.cached = event.cached ?? false;
      next.kernels = (event.kernels as KernelFacts[] | undefined) ?? [];
      next.warnings = event.warnings ?? "";
      break;
    case "CHECKING":
      next.reached = showsData(run.endpoint) ? "run" : "check";
      // The check of memory accesses has no verdict on each case.
      next.totalTests = run.endpoint === "check" ? null : (event.total_tests ?? null);
      break;
    case "TEST_RESULT":
      next.reached = showsData(run.endpoint) ? "run" : "check";
      next.totalTests = event.total_tests ?? run.totalTests;
      next.tests = replace(run.tests, event.result as TestResult);
      break;
    case "CHECKED":
      next.reached = "check";
      next.tests = (event.test_results as TestResult[] | undefined) ?? run.tests;
      next.totalTests = event.total_tests ?? run.totalTests;
      break;
    case "WRONG_ANSWER":
      next.reached = "check";
      next.tests = (event.test_results as TestResult[] | undefined) ?? run.tests;
      next.totalTests = event.total_tests ?? run.totalTests;
      next.wrong = event.debug_info ?? null;
      break;
    case "BENCHMARKING":
      next.reached = "bench";
      next.totalBenches = run.endpoint === "profile" ? null : (event.total_tests ?? null);
      break;
    case "BENCHMARK_RESULT":
      next.reached = "bench";
      next.totalBenches = event.total_tests ?? run.totalBenches;
      next.benches = replace(run.benches, event.result as BenchmarkResult);
      break;
    case "BENCHMARKED":
      next.reached = "bench";
      next.benches = (event.test_results as BenchmarkResult[] | undefined) ?? run.benches;
      next.totalBenches = event.total_tests ?? run.totalBenches;
      break;
    case "PASSED":
    case "FAILED":
      next.reached = "run";
      next.wrong = event.debug_info ?? null;
      break;
    case "CLEAN":
    case "FINDINGS":
      next.reached = "check";
      break;
    case "PROFILED":
      next.reached = "bench";
      break;
    case "COMPILE_ERROR":
      next.reached = "compile";
      break;
    case "SANDBOX_OUTPUT":
      next.reached = "run";
      next.output = [...run.output, { stream: event.stream ?? "stdout", line: event.line ?? "" }].slice(-LINES_KEPT);
      break;
    case "SANDBOX_SUCCESS":
    case "SANDBOX_ERROR":
    case "SANDBOX_TIMEOUT":
      next.reached = "run";
      break;
  }
  if (ends(event, run.endpoint)) {
    next.end = event;
    next.position = null;
  }
  return next;
}

export function fold(id: string, endpoint: Endpoint, events: BoardEvent[]): Run {
  return events.reduce(advance, begin(id, endpoint));
}

/** Builds the state from the server's details. For submissions of other users the server returns results but no events. */
export function recall(detail: SubmissionDetail): Run {
  // While it waits, the server knows its place better than the event of the moment when it was queued.
  const place =
    detail.state === "queued" && detail.position !== null
      ? { position: detail.position, expectedWait: detail.expected_wait_s }
      : {};
  if (detail.events.length > 0) return { ...fold(detail.id, detail.endpoint, detail.events), ...place };
  const tests = detail.results.filter((result): result is TestResult & { kind: "check" } => result.kind === "check");
  const benches = detail.results.filter((result): result is BenchmarkResult & { kind: "bench" } => result.kind === "bench");
  const run = begin(detail.id, detail.endpoint);
  return {
    ...run,
    ...place,
    status: detail.status,
    reached: benches.length > 0 ? "bench" : tests.length > 0 ? "check" : detail.state === "queued" ? "queue" : "compile",
    tests,
    totalTests: tests.length > 0 ? tests.length : null,
    benches,
    totalBenches: benches.length > 0 ? benches.length : null,
    end:
      detail.state === "done"
        ? {
            status: detail.status,
            emulated: detail.emulated,
            flags: detail.flags,
            deterministic: detail.deterministic ?? undefined,
            avg_runtime_ms: detail.avg_runtime_ms ?? undefined,
            ci_low_ms: detail.ci_low_ms ?? undefined,
            ci_high_ms: detail.ci_high_ms ?? undefined,
            avg_gflops: detail.avg_gflops ?? undefined,
            execution_time: detail.execution_time ?? undefined,
            cost_usd: detail.cost_usd ?? undefined,
          }
        : null,
  };
}

export function succeeded(run: Run): boolean {
  return run.end !== null && SUCCESSES.has(run.end.status);
}

const LABELS: Record<StepName, string> = {
  queue: "Queue",
  compile: "Compile",
  check: "Check",
  bench: "Measure",
  run: "Run",
};

/** Returns the steps of this kind of submission, in order. */
function plan(run: Run): StepName[] {
  switch (run.endpoint) {
    case "compile":
      return ["queue", "compile"];
    case "checker":
    case "check":
      return ["queue", "compile", "check"];
    case "profile":
      return ["queue", "compile", "bench"];
    case "sample":
    case "custom":
    case "sandbox":
      return ["queue", "compile", "run"];
    case "benchmark":
    case "full":
      return ["queue", "compile", "check", "bench"];
  }
}

/** Returns the steps for the stepper. */
export function steps(run: Run): Step[] {
  const names = plan(run);
  const at = Math.max(0, names.indexOf(run.reached));
  return names.map((name, index) => {
    let state: StepState;
    if (index < at) state = "done";
    else if (index > at) state = run.end === null ? "waiting" : "skipped";
    else if (run.end === null) state = "active";
    else state = succeeded(run) ? "done" : "failed";
    const label = run.endpoint === "profile" && name === "bench" ? "Profile" : LABELS[name];
    return { name, label, state, detail: detail(run, name, state) };
  });
}

function detail(run: Run, name: StepName, state: StepState): string {
  if (state === "waiting" || state === "skipped") return "";
  if (state === "failed" && name !== "check") return "failed";
  switch (name) {
    case "queue":
      return state === "active" ? queueDetail(run) : "";
    case "compile":
      if (run.status === "PROVISIONING") return "getting a GPU";
      return run.compileMs === null ? "" : run.cached ? "known" : format.time(run.compileMs);
    case "check":
      if (run.endpoint === "check" && run.end?.report !== undefined) return format.count(run.end.report.findings.length, "finding");
      return run.totalTests === null
        ? state === "failed"
          ? "failed"
          : ""
        : `${run.tests.filter((test) => test.status === "PASSED").length} of ${run.totalTests}`;
    case "bench": {
      if (run.end?.status === "BENCHMARKED" && run.end.avg_runtime_ms !== undefined) {
        return format.time(run.end.avg_runtime_ms);
      }
      return run.totalBenches === null ? "" : `${run.benches.length} of ${run.totalBenches}`;
    }
    case "run":
      return run.end === null ? "" : format.status(run.end.status, run.endpoint);
  }
}

function queueDetail(run: Run): string {
  if (run.position === null) return "";
  if (run.position <= 0) return "next";
  const place = `${ordinal(run.position)} in line`;
  return run.expectedWait !== null && run.expectedWait > 0 ? `${place}, ${format.wait(run.expectedWait)}` : place;
}

export function ordinal(n: number): string {
  const tens = n % 100;
  if (tens >= 11 && tens <= 13) return `${n}th`;
  return `${n}${["th", "st", "nd", "rd"][n % 10] ?? "th"}`;
}

/** Returns a sentence for screen readers. */
export function spoken(run: Run): string {
  if (run.end !== null) {
    const parts = [format.status(run.end.status, run.endpoint)];
    if (run.totalTests !== null) {
      parts.push(`${run.tests.filter((test) => test.status === "PASSED").length} of ${run.totalTests} cases passed`);
    }
    if (run.end.avg_runtime_ms !== undefined) parts.push(`runtime ${format.time(run.end.avg_runtime_ms)}`);
    return `${parts.join(", ")}.`;
  }
  if (run.reached === "queue") return `In the queue, ${queueDetail(run) || "waiting"}.`;
  return `${format.status(run.status)}.`;
}

function replace<T extends { test_id: number }>(list: T[], item: T): T[] {
  return [...list.filter((other) => other.test_id !== item.test_id), item].sort((a, b) => a.test_id - b.test_id);
}
