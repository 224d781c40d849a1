import { describe, expect, it } from "vitest";
import { loginAddress, returnPath } from "../src/return";
import { parse } from "../src/routes";

describe("a login", () => {
  it("returns to the page where it began", () => {
    const from = "/problems/relu?tab=discussion&x=a%20b";
    const address = new URL(loginAddress(from), "http://board.example");
    expect(address.pathname).toBe("/login");
    expect(returnPath(address.searchParams.get("return") ?? "")).toBe(from);
    expect(loginAddress("/")).toBe("/login");
    expect(loginAddress("/login/callback/x")).toBe("/login");
  });

  it("never leads to another site, and not in a circle", () => {
    for (const wanted of ["", "https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "javascript:x", "/login", "/login?return=/"]) {
      expect(returnPath(wanted)).toBe("/");
    }
    expect(returnPath("/logins")).toBe("/logins");
  });

  it("has its own pages", () => {
    expect(parse("/login")).toEqual({ page: "login" });
    expect(parse("/login/link")).toEqual({ page: "login-link" });
    expect(parse("/login/callback/company")).toEqual({ page: "login-callback", provider: "company" });
    expect(parse("/login/other")).toEqual({ page: "missing" });
    expect(parse("/login/callback/a/b")).toEqual({ page: "missing" });
    expect(parse("/account")).toEqual({ page: "account" });
  });
});
