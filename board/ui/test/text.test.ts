import { describe, expect, it } from "vitest";
import { diagnostics, pieces } from "../src/compiler";
import type { Difference, ElementKind } from "../src/contract";
import { digits, KINDS, kinds as kindsOf, lines, place } from "../src/difference";
import { address, census, family, weights, words } from "../src/isa";
import { differs, kind, rows, shown } from "../src/sample";
import { parse } from "../src/routes";
import { fitting } from "../src/search";
import { signature } from "../src/signature";
import { Frames } from "../src/sse";

describe("compiler output", () => {
  const output = [
    "solution.hip:7:18: error: use of undeclared identifier 'x'",
    "    7 |   float y = x;",
    "/usr/include/hip/hip_runtime.h:12:1: note: from here",
    "solution.hip:9:3: warning: unused variable",
  ].join("\n");

  it("is read for the lines of the user's own file", () => {
    expect(diagnostics(output)).toEqual([
      { line: 7, column: 18, severity: "error", message: "use of undeclared identifier 'x'" },
      { line: 9, column: 3, severity: "warning", message: "unused variable" },
    ]);
  });

  it("loses nothing when it is cut into pieces", () => {
    const text = pieces(output).map((line) => line.map((piece) => piece.text).join(""));
    expect(text.join("\n")).toBe(output);
    expect(pieces(output)[0]?.[0]?.line).toBe(7);
    expect(pieces(output)[2]?.[0]?.line).toBeUndefined();
  });
});

describe("difference", () => {
  const kinds = (left: string, right: string) => lines([...left], [...right]).map((pair) => pair.kind);

  it("pairs what is the same", () => {
    expect(kinds("abc", "abc")).toEqual(["same", "same", "same"]);
    expect(kinds("abc", "abxc")).toEqual(["same", "same", "right", "same"]);
    expect(kinds("abxc", "abc")).toEqual(["same", "same", "left", "same"]);
    expect(kinds("abc", "axc")).toEqual(["same", "changed", "same"]);
    expect(kinds("", "ab")).toEqual(["right", "right"]);
  });

  it("tells every line of both sides once and in order", () => {
    const pairs = lines([..."the quick brown fox"], [..."a quick red fox jumps"]);
    const left = pairs.flatMap((pair) => (pair.left === null ? [] : [pair.left]));
    const right = pairs.flatMap((pair) => (pair.right === null ? [] : [pair.right]));
    expect(left).toEqual(Array.from({ length: 19 }, (_, place) => place));
    expect(right).toEqual(Array.from({ length: 21 }, (_, place) => place));
  });

  it("finds where digits part, in numbers of one size", () => {
    expect(digits("0.187042", "0.187911")).toEqual({ same: "0.187", rest: "911" });
    expect(digits("12.5", "125")).toEqual({ same: "", rest: "125" });
    expect(digits("1.5e-3", "1.5e-4")).toEqual({ same: "", rest: "1.5e-4" });
    expect(digits("-1.5", "1.5")).toEqual({ same: "", rest: "1.5" });
  });

  it("names places and what is wrong there", () => {
    expect(place([3, 17])).toBe("(3, 17)");
    expect(place([5])).toBe("(5)");
    const sample = (kind: ElementKind): Difference => ({ index: [0], expected: "1", actual: "2", diff: "1", kind });
    expect(kindsOf([sample("infinite"), sample("not-a-number"), sample("infinite")])).toEqual(["not-a-number", "infinite"]);
    expect(KINDS["not-a-number"]).not.toBe(KINDS.infinite);
  });
});

describe("instructions", () => {
  it("have families", () => {
    expect(family("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], 0")).toBe("matrix");
    expect(family("global_load_dword v2, v[2:3], off")).toBe("memory");
    expect(family("s_load_dwordx4 s[0:3], s[4:5], 0x0")).toBe("memory");
    expect(family("ds_read_b32 v0, v1")).toBe("local");
    expect(family("s_waitcnt vmcnt(0)")).toBe("wait");
    expect(family("s_cbranch_execz 12")).toBe("branch");
    expect(family("v_add_u32_e32 v0, s6, v0")).toBe("vector");
    expect(family("s_mul_i32 s6, s6, s0")).toBe("scalar");
  });

  it("keep their text when they are coloured", () => {
    const text = "v_cmp_gt_u64_e32 vcc, s[0:1], v[0:1]  // 0x10";
    expect(words(text).map((word) => word.text).join("")).toBe(text);
    expect(words(text).filter((word) => word.kind === "register").map((word) => word.text)).toEqual(["vcc", "s[0:1]", "v[0:1]"]);
  });

  it("are counted by line and by family", () => {
    const linesOf = [
      { address: 0, text: "v_add_u32_e32 v0, s6, v0", source_line: 3 },
      { address: 4, text: "v_mov_b32_e32 v1, 0", source_line: 3 },
      { address: 8, text: "s_endpgm" },
    ];
    expect(weights([{ kernel: "k", lines: linesOf }]).get(3)).toBe(2);
    expect(census(linesOf)).toEqual([["vector", 2], ["wait", 1]]);
    expect(address(24)).toBe("0018");
  });
});

describe("streams", () => {
  it("come out whole however they are cut", () => {
    const text = 'event: CHECKING\r\nid: 4\r\ndata: {"a":1}\r\n\r\n: nothing\n\nevent: heartbeat\ndata: {"ts":1}\n\n';
    for (let size = 1; size <= text.length; size += 1) {
      const frames = new Frames();
      const found = [];
      for (let at = 0; at < text.length; at += size) found.push(...frames.push(text.slice(at, at + size)));
      expect(found).toEqual([
        { event: "CHECKING", id: "4", data: '{"a":1}' },
        { event: "heartbeat", id: null, data: '{"ts":1}' },
      ]);
    }
  });
});

describe("pages", () => {
  it("are found by their paths", () => {
    expect(parse("/")).toEqual({ page: "problems" });
    expect(parse("/problems/leaky-relu")).toEqual({ page: "problem", slug: "leaky-relu" });
    expect(parse("/submissions/abc/")).toEqual({ page: "submission", id: "abc" });
    expect(parse("/leaderboard/x")).toEqual({ page: "leaderboard", slug: "x" });
    expect(parse("/problems/%zz")).toEqual({ page: "problem", slug: "%zz" });
    expect(parse("/a/b/c")).toEqual({ page: "missing" });
  });
});

describe("search", () => {
  const row = (slug: string, difficulty: string, tags: string[], solved = false) => ({
    slug, title: slug.replaceAll("-", " "), difficulty, tags, dtypes: [], gpus: 1, solved, submissions: 0, accepted: 0,
  });
  const all = [row("leaky-relu", "easy", ["activation"], true), row("matmul-relu", "medium", ["matmul", "fused"])];
  const none = { search: "", difficulty: "", tag: "", unsolved: false };

  it("wants every word somewhere", () => {
    expect(fitting(all, { ...none, search: "relu" }).length).toBe(2);
    expect(fitting(all, { ...none, search: "fused relu" }).map((one) => one.slug)).toEqual(["matmul-relu"]);
    expect(fitting(all, { ...none, search: "softmax" })).toEqual([]);
  });

  it("narrows by difficulty, tag and what is solved", () => {
    expect(fitting(all, { ...none, difficulty: "easy" }).length).toBe(1);
    expect(fitting(all, { ...none, tag: "matmul" }).length).toBe(1);
    expect(fitting(all, { ...none, unsolved: true }).map((one) => one.slug)).toEqual(["matmul-relu"]);
  });
});

describe("statement and sample", () => {
  it("read the signature out of the starter code", () => {
    expect(signature('// x\nextern "C" __global__ void solution(const float* a,\n    size_t n) {\n}')).toBe(
      'extern "C" __global__ void solution(const float* a, size_t n)',
    );
    expect(signature(undefined)).toBeNull();
  });

  it("see numbers differ beyond rounding only", () => {
    expect(differs(0.1, 0.1000001)).toBe(false);
    expect(differs(0.1, 0.2)).toBe(true);
    expect(differs("NaN", 0.1)).toBe(true);
    expect(differs("NaN", "NaN")).toBe(false);
  });

  it("show arrays in rows of the last dimension", () => {
    expect(rows({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] })).toEqual([[1, 2, 3], [4, 5, 6]]);
    expect(rows({ shape: [4], values: [1, 2, 3, 4] })).toEqual([[1, 2, 3, 4]]);
    expect(rows({ shape: [], values: [7] })).toEqual([[7]]);
    expect(shown(0.30000001192)).toBe("0.3");
  });

  it("have a word for what is no number, and another for infinities", () => {
    expect(["NaN", "inf", "-inf", "18446744073709551615"].map(shown)).toEqual([
      "not a number",
      "infinite",
      "-infinite",
      "18446744073709551615",
    ]);
    expect(["NaN", "-inf", "7", 7].map(kind)).toEqual(["not-a-number", "infinite", "number", "number"]);
  });
});
