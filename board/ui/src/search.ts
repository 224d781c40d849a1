/** Search for problems. */

import type { ProblemSummary } from "./contract";

export interface Choice {
  search: string;
  difficulty: string;
  tag: string;
  unsolved: boolean;
}

/** Returns the matching problems: every search word must occur in the title, the name or the tags. */
export function fitting(problems: ProblemSummary[], choice: Choice): ProblemSummary[] {
  const words = choice.search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return problems.filter((problem) => {
    const text = `${problem.title} ${problem.slug} ${problem.tags.join(" ")}`.toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      (choice.difficulty === "" || problem.difficulty.toLowerCase() === choice.difficulty) &&
      (choice.tag === "" || problem.tags.includes(choice.tag)) &&
      (!choice.unsolved || !problem.solved)
    );
  });
}
