import { describe, expect, it } from "vitest";
import type { DebugInfo, Endpoint, SubmissionDetail } from "../src/contract";
import type { BoardEvent } from "../src/event";
import { advance, begin, ends, fold, ordinal, recall, spoken, steps } from "../src/run";

function replay(endpoint: Endpoint, ...events: BoardEvent[]) {
  return fold(
    "s1",
    endpoint,
    events.map((event, index) => ({ ...event, id: index + 1 })),
  );
}

const test = (id: number, status: "PASSED" | "FAILED"): BoardEvent => ({
  status: "TEST_RESULT",
  result: { test_id: id, name: `case ${id}`, status, runtime_ms: 1, max_difference: 0 },
  total_tests: 3,
});

const states = (run: ReturnType<typeof replay>) => steps(run).map((step) => step.state);

describe("run", () => {
  it("goes from step to step", () => {
    const queued: BoardEvent = { status: "IN_QUEUE", position: 2, expected_wait_s: 3.2 };
    expect(states(replay("full", queued))).toEqual(["active", "waiting", "waiting", "waiting"]);
    expect(steps(replay("full", queued))[0]?.detail).toBe("2nd in line, 3 s");
    const compiling = replay("full", queued, { status: "COMPILING" });
    expect(states(compiling)).toEqual(["done", "active", "waiting", "waiting"]);
    const checking = replay("full", queued, { status: "COMPILING" }, { status: "CHECKING", total_tests: 3 }, test(1, "PASSED"));
    expect(states(checking)).toEqual(["done", "done", "active", "waiting"]);
    expect(steps(checking)[2]?.detail).toBe("1 of 3");
  });

  it("marks the step that failed and leaves out those after it", () => {
    const run = replay("full", { status: "COMPILING" }, { status: "COMPILE_ERROR", message: "no", details: "x.hip:1:1: error: no" });
    expect(states(run)).toEqual(["done", "failed", "skipped", "skipped"]);
  });

  it("takes each event once, whatever is replayed", () => {
    const run = replay("full", { status: "CHECKING", total_tests: 3 }, test(1, "PASSED"), test(2, "FAILED"));
    const again = advance(run, { ...test(1, "FAILED"), id: 2 });
    expect(again).toBe(run);
    expect(run.tests.map((one) => one.status)).toEqual(["PASSED", "FAILED"]);
  });

  it("starts over when the job goes back to the queue", () => {
    const run = replay("full", { status: "CHECKING", total_tests: 3 }, test(1, "PASSED"), { status: "IN_QUEUE", position: 1 });
    expect(run.tests).toEqual([]);
    expect(states(run)[0]).toBe("active");
  });

  it("knows which events end what kind of submission", () => {
    expect(ends({ status: "CHECKED" }, "checker")).toBe(true);
    expect(ends({ status: "CHECKED" }, "full")).toBe(false);
    expect(ends({ status: "COMPILED" }, "compile")).toBe(true);
    expect(ends({ status: "COMPILED" }, "full")).toBe(false);
    expect(ends({ status: "TIME_LIMIT_EXCEEDED" }, "sample")).toBe(true);
  });

  it("keeps the differences of a wrong answer", () => {
    const run = replay("full", { status: "WRONG_ANSWER", debug_info: { case: "n=9" } as DebugInfo, passed_tests: 1, total_tests: 3 });
    expect(run.wrong?.case).toBe("n=9");
    expect(run.end?.status).toBe("WRONG_ANSWER");
  });

  it("shows only the public part of another user's submission", () => {
    const detail = {
      id: "s9",
      endpoint: "full",
      status: "BENCHMARKED",
      state: "done",
      emulated: true,
      flags: [],
      deterministic: false,
      avg_runtime_ms: 2,
      ci_low_ms: 1.9,
      ci_high_ms: 2.1,
      events: [],
      results: [{ kind: "check", test_id: 1, name: "a", status: "PASSED" }, { kind: "bench", test_id: 1, name: "b", runtime_ms: 2 }],
    } as unknown as SubmissionDetail;
    const run = recall(detail);
    expect(run.tests.length).toBe(1);
    expect(run.benches.length).toBe(1);
    expect([run.end?.deterministic, run.end?.ci_low_ms, run.end?.ci_high_ms]).toEqual([false, 1.9, 2.1]);
    expect(states(run)).toEqual(["done", "done", "done", "done"]);
  });

  it("shows the place that the server knows while it waits, not that of an old event", () => {
    const detail = {
      id: "s9",
      endpoint: "full",
      status: "IN_QUEUE",
      state: "queued",
      position: 4,
      expected_wait_s: 12,
      events: [{ status: "IN_QUEUE", id: 1, message: "", position: 2, expected_wait_s: 3 }],
      results: [],
    } as unknown as SubmissionDetail;
    expect(steps(recall(detail))[0]?.detail).toBe("4th in line, 12 s");
    // Other users see no events.
    expect(steps(recall({ ...detail, events: [] }))[0]?.detail).toBe("4th in line, 12 s");
  });

  it("says in a sentence how it stands", () => {
    expect(spoken({ ...begin("s1", "full"), position: 1 })).toBe("In the queue, 1st in line.");
    expect(spoken(replay("full", { status: "CHECKING", total_tests: 3 }, test(1, "PASSED"), { status: "WRONG_ANSWER" }))).toBe(
      "Wrong answer, 1 of 3 cases passed.",
    );
  });

  it("counts in English", () => {
    expect([1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal)).toEqual(
      ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"],
    );
  });
});
