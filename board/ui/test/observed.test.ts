import { describe, expect, test } from "vitest";
import type { AccessReport, CustomForm, DeviceInfo, Finding, KernelReport } from "../src/contract";
import { Mistake, type Draft, load, numbers, request } from "../src/custom";
import { software } from "../src/device";
import { status } from "../src/format";
import { heat, marks, rate } from "../src/observed";
import { advance, begin, steps } from "../src/run";

const finding = (more: Partial<Finding>): Finding => ({
  kind: "local-race",
  line: 5,
  other_line: null,
  kernel: "solution",
  message: "race",
  details: [],
  count: 1,
  ...more,
});

const report = (findings: Finding[]): AccessReport => ({ findings, more: 0, cases: [], stopped: "", unchecked: 0, launches: 1 });

describe("observed runs", () => {
  test("a race marks both of its lines, and code from headers none", () => {
    const found = marks(report([finding({ other_line: 9 }), finding({ line: null }), finding({ kind: "same-address", line: 7 })]));
    expect(found.map((mark) => [mark.line, mark.severity])).toEqual([
      [5, "error"],
      [9, "error"],
      [7, "note"],
    ]);
  });

  test("the heat of a line is the larger one of its shares", () => {
    const none = { hits: 0, accesses: 0 };
    const line = { instructions: 10, lanes: 64, global_bytes: 0, line_use: 0, l1: none, l2: none, local_bytes: 0, bank_conflicts: 0 };
    const lines = [
      { ...line, line: 3, share: 0.2, stalled: 0.7 },
      { ...line, line: null, share: 0.8, stalled: 0 },
    ];
    const found = heat({ lines } as unknown as KernelReport);
    expect(found.map((one) => [one.line, one.share])).toEqual([[3, 0.7]]);
    expect(found[0]?.text).toContain("70");
    expect(rate(none)).toBe("–");
  });

  test("the steps of a check and of a profile end with their own", () => {
    const checked = advance(begin("a", "check"), { status: "FINDINGS", report: report([finding({})]) });
    expect(steps(checked).map((step) => [step.label, step.state])).toEqual([
      ["Queue", "done"],
      ["Compile", "done"],
      ["Check", "failed"],
    ]);
    expect(steps(checked).at(-1)?.detail).toBe("1 finding");
    const profiled = advance(begin("a", "profile"), { status: "PROFILED" });
    expect(steps(profiled).at(-1)).toMatchObject({ label: "Profile", state: "done" });
    expect(advance(begin("a", "custom"), { status: "CHECKING", total_tests: 1 }).reached).toBe("run");
    expect(steps(advance(begin("a", "custom"), { status: "FAILED" })).at(-1)?.detail).toBe("failed");
    expect(status("PASSED", "custom")).toBe("Custom input passed");
    expect(status("PASSED", "sample")).toBe("Sample passed");
  });

  test("a software GPU of the same model is preferred", () => {
    const device = (gpu_type: string, emulated: boolean, state = "ready") => ({ gpu_type, emulated, state }) as DeviceInfo;
    const real = device("MI210", false);
    const all = [device("MI300X", true), device("MI210-software", true), real];
    expect(software(all, real)?.gpu_type).toBe("MI210-software");
    expect(software(all, all[0]!)?.gpu_type).toBe("MI300X");
    expect(software([real, device("MI300X", true, "offline")], real)).toBeNull();
  });
});

describe("custom inputs", () => {
  const form: CustomForm = {
    sizes: { n: 2 },
    values: { alpha: 0.5 },
    inputs: [{ name: "input", shape: ["n"], fixed: false }],
    most_elements: 65536,
  };

  test("a new form has the numbers of the sample", () => {
    expect(request(load("none", form))).toEqual({
      sizes: { n: 2 },
      values: { alpha: 0.5 },
      inputs: { input: { kind: "problem" } },
      seed: 0,
    });
  });

  test("numbers are read between commas, spaces and brackets; large integers stay exact", () => {
    expect(numbers("a", "[[1, 2.5],\n [-3 1e2]]")).toEqual([1, 2.5, -3, 100]);
    expect(numbers("a", "18446744073709551615 +9007199254740993")).toEqual(["18446744073709551615", "9007199254740993"]);
    expect(() => numbers("a", "1, two")).toThrow(Mistake);
    expect(() => numbers("a", "Infinity")).toThrow(/"Infinity" is not a number/);
  });

  test("a mistake names its field", () => {
    const draft: Draft = load("none", form);
    expect(() => request({ ...draft, sizes: { n: "1.5" } })).toThrow(/n: "1.5" is not a whole number/);
    expect(() => request({ ...draft, values: { alpha: "" } })).toThrow(/alpha/);
  });
});
