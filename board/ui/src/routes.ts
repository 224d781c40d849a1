/** Maps paths to pages. */

export type Route =
  | { page: "problems" }
  | { page: "problem"; slug: string }
  | { page: "submissions" }
  | { page: "submission"; id: string }
  | { page: "compare" }
  | { page: "batch" }
  | { page: "leaderboard"; slug: string }
  | { page: "ranking" }
  | { page: "user"; name: string }
  | { page: "shared"; token: string }
  | { page: "queue" }
  | { page: "login" }
  | { page: "login-callback"; provider: string }
  | { page: "login-link" }
  | { page: "account" }
  | { page: "missing" };

export function parse(path: string): Route {
  const parts = path.split("/").filter((part) => part !== "");
  const [first, second, third] = parts;
  if (parts.length === 0) return { page: "problems" };
  if (parts.length === 1) {
    if (first === "problems") return { page: "problems" };
    if (first === "submissions") return { page: "submissions" };
    if (first === "compare") return { page: "compare" };
    if (first === "batch") return { page: "batch" };
    if (first === "ranking") return { page: "ranking" };
    if (first === "queue") return { page: "queue" };
    if (first === "login") return { page: "login" };
    if (first === "account") return { page: "account" };
  }
  if (parts.length === 2 && second !== undefined) {
    const name = decode(second);
    if (first === "problems") return { page: "problem", slug: name };
    if (first === "submissions") return { page: "submission", id: name };
    if (first === "users") return { page: "user", name };
    if (first === "s") return { page: "shared", token: name };
    if (first === "leaderboard") return { page: "leaderboard", slug: name };
    if (first === "login" && name === "link") return { page: "login-link" };
  }
  if (parts.length === 3 && first === "login" && second === "callback" && third !== undefined) {
    return { page: "login-callback", provider: decode(third) };
  }
  return { page: "missing" };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
