/** Order of the problem list. */

import type { ProblemSummary } from "./contract";

export type Column = "title" | "difficulty" | "accepted" | "submissions";

export interface Order {
  column: Column;
  descending: boolean;
}

const COLUMNS: readonly Column[] = ["title", "difficulty", "accepted", "submissions"];
const LEVELS = ["easy", "medium", "hard"];

/** Reads an order from the address: `title`, or `-title` for descending. Null keeps the server's order. */
export function order(text: string): Order | null {
  const descending = text.startsWith("-");
  const column = COLUMNS.find((name) => name === (descending ? text.slice(1) : text));
  return column === undefined ? null : { column, descending };
}

/** Returns the address of the order that follows when a heading is selected: one direction, the other, none. */
export function next(text: string, column: Column): string {
  const now = order(text);
  // Of counts, large ones are interesting first.
  const first = column === "accepted" || column === "submissions" ? `-${column}` : column;
  const second = first === column ? `-${column}` : column;
  if (now?.column !== column) return first;
  return text === first ? second : "";
}

/** Returns the problems in an order. Problems that are equal in it keep their place. */
export function sorted(problems: ProblemSummary[], by: Order | null): ProblemSummary[] {
  if (by === null) return problems;
  const compare = (one: ProblemSummary, two: ProblemSummary): number => {
    switch (by.column) {
      case "title":
        return one.title.localeCompare(two.title, "en");
      case "difficulty":
        return LEVELS.indexOf(one.difficulty) - LEVELS.indexOf(two.difficulty);
      case "accepted":
        return one.accepted - two.accepted;
      case "submissions":
        return one.submissions - two.submissions;
    }
  };
  return [...problems].sort((one, two) => (by.descending ? compare(two, one) : compare(one, two)));
}
