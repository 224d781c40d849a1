import { describe, expect, it } from "vitest";
import type { ProblemSummary } from "../src/contract";
import { failing, sentence, utf8 } from "../src/format";
import { frame } from "../src/frame";
import { parse } from "../src/routes";
import { next, order, sorted } from "../src/sort";

const problem = (slug: string, difficulty: string, accepted: number, submissions: number): ProblemSummary => ({
  slug,
  title: slug,
  difficulty,
  tags: [],
  dtypes: ["float32"], gpus: 1,
  solved: false,
  submissions,
  accepted,
});

describe("the order of the problem list", () => {
  const list = [problem("b", "hard", 1, 9), problem("a", "easy", 3, 3), problem("c", "medium", 1, 5)];
  const slugs = (text: string) => sorted(list, order(text)).map((one) => one.slug).join("");

  it("follows the column and its direction", () => {
    expect(slugs("title")).toBe("abc");
    expect(slugs("-title")).toBe("cba");
    expect(slugs("difficulty")).toBe("acb");
    expect(slugs("-submissions")).toBe("bca");
  });

  it("keeps equal problems in their place, in both directions", () => {
    expect(slugs("accepted")).toBe("bca");
    expect(slugs("-accepted")).toBe("abc");
  });

  it("is the server's without or with an unknown column", () => {
    expect(slugs("")).toBe("bac");
    expect(slugs("constructor")).toBe("bac");
    expect(sorted(list, null)).toBe(list);
  });

  it("changes in a circle when a heading is selected", () => {
    expect(next("", "title")).toBe("title");
    expect(next("title", "title")).toBe("-title");
    expect(next("-title", "title")).toBe("");
    expect(next("title", "accepted")).toBe("-accepted");
    expect(next("-accepted", "accepted")).toBe("accepted");
    expect(next("accepted", "accepted")).toBe("");
  });
});

describe("messages", () => {
  it("begin with a capital letter, but identifiers keep their case", () => {
    expect(sentence("the queue is full")).toBe("The queue is full");
    expect(sentence("the user ada is banned")).toBe("The user ada is banned");
    expect(sentence("leaky-relu does not support it")).toBe("leaky-relu does not support it");
    expect(sentence("problem_def is ignored")).toBe("problem_def is ignored");
    expect(sentence("hipMalloc failed")).toBe("hipMalloc failed");
    expect(sentence("`limit` must be from 1")).toBe("`limit` must be from 1");
    expect(sentence("gfx942 is missing")).toBe("gfx942 is missing");
    expect(sentence("")).toBe("");
  });

  it("say how many cases fail", () => {
    expect(failing(3, 4)).toBe("3 of 4 cases fail");
    expect(failing(1, 4)).toBe("1 of 4 cases fails");
    expect(failing(1, 1)).toBe("1 of 1 case fails");
  });

  it("have the size that the server counts", () => {
    expect(utf8("aé€")).toBe(6);
  });
});

describe("addresses", () => {
  it("name users, share links and the ranking", () => {
    expect(parse("/users/Ada.L")).toEqual({ page: "user", name: "Ada.L" });
    expect(parse("/s/abc")).toEqual({ page: "shared", token: "abc" });
    expect(parse("/ranking")).toEqual({ page: "ranking" });
    expect(parse("/users")).toEqual({ page: "missing" });
  });
});

describe("the code of a frame", () => {
  it("cannot be left by its address or title", () => {
    const code = frame('https://board.example/?a="><script>&b', '"><b>', 200);
    expect(code).not.toContain("<script>");
    expect(code).not.toContain("<b>");
    expect(code).toContain("&quot;&gt;&lt;script&gt;&amp;b");
    expect(code).toContain('sandbox="allow-popups"');
  });
});
