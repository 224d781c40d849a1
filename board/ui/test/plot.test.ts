import { describe, expect, it } from "vitest";
import type { BenchmarkResult } from "../src/contract";
import { dots, roofLabel } from "../src/plot/roofline";
import { decades, linear, log } from "../src/plot/scale";
import { strip } from "../src/plot/spread";

const bench: BenchmarkResult = {
  test_id: 1,
  name: "4096 × 4096",
  runtime_ms: 2,
  ci_low_ms: 1.9,
  ci_high_ms: 2.1,
  mean_ms: 2,
  min_ms: 1.8,
  p95_ms: 2.4,
  samples_ms: [1.8, 2, 2.2, 9],
  rejected: 1,
  gbytes_per_s: 1,
  floor_ms: 1,
  cold_cache: false,
  estimated: false,
  roofline: { flops: 8e9, bytes: 4e9, intensity: 2, peak_flops: 100e12, peak_unit: "float32", peak_bytes_per_s: 5e12 },
};

describe("plot", () => {
  it("puts values where they belong on a logarithmic axis", () => {
    const scale = log(0.1, 1000, 0, 400);
    expect(scale(0.1)).toBeCloseTo(0);
    expect(scale(10)).toBeCloseTo(200);
    expect(scale(1000)).toBeCloseTo(400);
    expect(scale.ticks.map((tick) => Number(tick.toPrecision(3)))).toEqual([0.1, 1, 10, 100, 1000]);
  });

  it("never crowds an axis", () => {
    expect(log(1e-12, 1e15, 0, 100).ticks.length).toBeLessThanOrEqual(9);
    expect(linear(0.9, 1.6, 0, 100, 6).ticks.length).toBeLessThanOrEqual(8);
  });

  it("leaves air around values and survives having none", () => {
    const [low, high] = decades([0.5, 20]);
    expect(low).toBeLessThan(0.5);
    expect(high).toBeGreaterThan(20);
    expect(decades([0, Number.NaN])).toEqual([0.1, 10]);
  });

  it("finds the roof above a case", () => {
    const [dot] = dots([{ name: "this", benches: [bench] }]);
    expect(dot?.flops).toBeCloseTo(4e12);
    expect(dot?.roof).toBeCloseTo(10e12);
    expect(dot?.bound).toBe("memory");
  });

  it("says which units a roof is the peak of", () => {
    expect(roofLabel(bench.roofline)).toBe("100 TFLOP/s float32");
    expect(roofLabel({ ...bench.roofline, peak_unit: "" })).toBe("100 TFLOP/s");
  });

  it("leaves out cases whose work is not known", () => {
    const unknown = { ...bench, roofline: { ...bench.roofline, flops: null, intensity: null } };
    expect(dots([{ name: "this", benches: [unknown] }])).toEqual([]);
  });

  it("draws samples beside their median and counts those beyond the edge", () => {
    const made = strip(bench);
    expect(made.samples[0]).toBeCloseTo(0.9);
    expect(made.beyond).toBe(1);
    expect(Math.max(...made.samples)).toBeLessThanOrEqual(1.6);
  });
});
