/** Names of the pictures of every page. A page of the router without a picture does not compile. */

import type { Route } from "../src/routes";

export const LABELS = {
  problems: ["problems"],
  problem: ["problem", "accepted", "wrong-answer", "compile-error", "check", "profile-run", "custom", "discussion", "editorial"],
  submissions: ["submissions"],
  submission: ["submission"],
  compare: ["compare"],
  batch: ["batch"],
  leaderboard: ["leaderboard"],
  ranking: ["ranking"],
  user: ["profile"],
  shared: ["shared", "unshared"],
  queue: ["queue"],
  login: ["login", "login-again"],
  "login-callback": ["login-failed"],
  "login-link": ["login-link"],
  account: ["account", "account-locked"],
  missing: ["missing"],
  // Pages that the server renders for frames on other sites.
  embed: ["embed-result", "embed-leaderboard"],
} as const satisfies Record<Route["page"] | "embed", readonly string[]>;

/** Name of the pictures of a page: without those of the login, which a board with a login provider has. */
export type Label = (typeof LABELS)[keyof typeof LABELS][number];
export type LoginLabel = (typeof LABELS)["login" | "login-callback" | "login-link" | "account"][number];
export type BoardLabel = Exclude<Label, LoginLabel>;
