import { describe, expect, it } from "vitest";
import { change, interval, tied, words } from "../src/interval";

const at = (time: number, low: number, high: number) => ({ time, low, high });

describe("interval", () => {
  it("finds no difference where the intervals overlap", () => {
    expect(words(change(at(1, 0.9, 1.1), at(1.15, 1.05, 1.25)))).toBe("no measurable difference");
    expect(words(change(at(1.15, 1.05, 1.25), at(1, 0.9, 1.1)))).toBe("no measurable difference");
    expect(words(change(at(1, 0.5, 2), at(1.9, 1.8, 2)))).toBe("no measurable difference");
  });

  it("says by how much, with the range that the intervals allow", () => {
    expect(words(change(at(3, 2.8, 3.2), at(2, 1.6, 2)))).toBe("1.50× faster (1.40 to 2.00)");
    expect(words(change(at(2, 1.6, 2), at(3, 2.8, 3.2)))).toBe("1.50× slower (1.40 to 2.00)");
  });

  it("takes a time without an interval as it is", () => {
    expect(interval(2, null, undefined)).toEqual(at(2, 2, 2));
    expect(interval(null, 1, 2)).toBeNull();
    expect(words(change(at(2, 2, 2), at(1, 1, 1)))).toBe("2.00× faster");
  });

  it("knows which ranks are shared", () => {
    const entries = [1, 1, 3].map((rank) => ({ rank }));
    expect(entries.map((entry) => tied(entries, entry))).toEqual([true, true, false]);
  });
});
