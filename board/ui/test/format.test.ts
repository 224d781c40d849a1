import { describe, expect, it } from "vitest";
import * as format from "../src/format";

describe("format", () => {
  it("keeps times between one and a thousand", () => {
    expect(format.time(0.0000125)).toBe("12.5 ns");
    expect(format.time(0.0663)).toBe("66.3 µs");
    expect(format.time(1.25)).toBe("1.25 ms");
    expect(format.time(2310)).toBe("2.31 s");
    expect(format.time(125_000)).toBe("2 min 5 s");
    expect(format.time(7_260_000)).toBe("2 h 1 min");
  });

  it("shows a dash for missing values", () => {
    expect(format.time(null)).toBe("–");
    expect(format.time(Number.NaN)).toBe("–");
    expect(format.metric(undefined)).toBe("–");
    expect(format.money(null)).toBe("–");
    expect(format.error(null)).toBe("–");
  });

  it("gives counts a prefix without rounding into the next one wrongly", () => {
    expect(format.metric(12)).toBe("12");
    expect(format.metric(1500)).toBe("1.50 k");
    expect(format.metric(999_700)).toBe("1.00 M");
    expect(format.metric(5.3e12, "B/s")).toBe("5.30 TB/s");
  });

  it("never shows a cost as nothing", () => {
    expect(format.money(0)).toBe("$0");
    expect(format.money(0.00002)).toBe("< $0.0001");
    expect(format.money(0.0013)).toBe("$0.0013");
    expect(format.money(1.99)).toBe("$1.99");
  });

  it("keeps what is no number as it was said", () => {
    expect(format.error("NaN")).toBe("NaN");
    expect(format.error("inf")).toBe("inf");
    expect(format.error("1.94")).toBe("1.94");
    expect(format.error(0.0000012)).toBe("1.2e-6");
  });

  it("shows intervals and fractions of waves", () => {
    expect(format.range(1.2, 1.3)).toBe("1.20 ms – 1.30 ms");
    expect(format.range(null, 1.3)).toBe("");
    expect([8, 6.25, 0.25].map(format.waves)).toEqual(["8", "6.25", "0.25"]);
    expect(format.error("not a number")).toBe("not a number");
  });

  it("says how long ago", () => {
    const now = Date.UTC(2026, 5, 1);
    expect(format.ago(now - 5_000, now)).toBe("just now");
    expect(format.ago(now - 600_000, now)).toBe("10 min ago");
    expect(format.ago(now - 3 * 86_400_000, now)).toBe("3 days ago");
    expect(format.ago(now - 90 * 86_400_000, now)).toBe("2026-03-03");
  });

  it("separates thousands", () => {
    expect(format.whole(3_145_728)).toBe("3\u2009145\u2009728");
    expect(format.whole(999)).toBe("999");
  });
});
