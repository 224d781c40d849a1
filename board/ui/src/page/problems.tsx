/** All problems, with search, difficulty, tags and solved state. The filters are stored in the address. */

import { useEffect, useRef } from "preact/hooks";
import * as api from "../api";
import type { ProblemSummary } from "../contract";
import * as format from "../format";
import { offer } from "../keys";
import { useLoad } from "../load";
import { Icon } from "../part/icon";
import { Empty, Refused, SkeletonRows } from "../part/state";
import { Depth } from "../part/status";
import { amend, parameter } from "../route";
import { type Choice, fitting } from "../search";
import { type Column, next, order, sorted } from "../sort";
import { useTitle } from "../title";

const DIFFICULTIES = ["easy", "medium", "hard"];

/** Counts change while others submit. */
const REFRESH_MS = 15_000;

export function ProblemsPage() {
  useTitle("Problems");
  const load = useLoad(api.problems, [], REFRESH_MS);
  const search = useRef<HTMLInputElement>(null);
  useEffect(
    () => offer([{ keys: "/", label: "Search the problems", run: () => search.current?.select() }]),
    [],
  );
  const now = load.now.value;
  const all = now.value ?? [];
  const choice: Choice = {
    search: parameter("q"),
    difficulty: parameter("difficulty"),
    tag: parameter("tag"),
    unsolved: parameter("unsolved") === "1",
  };
  const by = parameter("sort");
  const shown = sorted(fitting(all, choice), order(by));
  const counts = new Map<string, number>();
  for (const problem of all) for (const tag of problem.tags) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  const tags = [...counts.keys()].sort();
  const solved = all.filter((problem) => problem.solved).length;
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>Problems</h1>
          <p>Write a HIP kernel. It is compiled, checked against hidden inputs and measured while you watch.</p>
        </div>
        {all.length > 0 && (
          <div class="progress" title={`${solved} of ${all.length} solved`}>
            <span class="number">
              {solved} <span class="dim">of {all.length} solved</span>
            </span>
            <span class="progress-track">
              <span style={{ width: `${(solved / all.length) * 100}%` }} />
            </span>
          </div>
        )}
      </div>
      <div class="filters" role="search">
        <label class="search">
          <span class="hidden-visually">Search the problems</span>
          <Icon name="search" />
          <input
            ref={search}
            type="search"
            class="field"
            placeholder="Search"
            value={choice.search}
            onInput={(event) => amend({ q: event.currentTarget.value })}
            onKeyDown={(event) => {
              if (event.key === "Escape") event.currentTarget.blur();
            }}
          />
          <kbd aria-hidden="true">/</kbd>
        </label>
        <div class="segments" role="group" aria-label="Difficulty">
          {["", ...DIFFICULTIES].map((difficulty) => (
            <button
              type="button"
              key={difficulty}
              aria-pressed={choice.difficulty === difficulty}
              onClick={() => amend({ difficulty })}
            >
              {difficulty === "" ? "All" : difficulty[0]!.toUpperCase() + difficulty.slice(1)}
            </button>
          ))}
        </div>
        <label>
          <span class="hidden-visually">Tag</span>
          <select class="field" value={choice.tag} onChange={(event) => amend({ tag: event.currentTarget.value })}>
            <option value="">Any tag</option>
            {tags.map((tag) => (
              <option key={tag} value={tag}>
                {tag} ({counts.get(tag)})
              </option>
            ))}
          </select>
        </label>
        <label class="tick-box">
          <input
            type="checkbox"
            checked={choice.unsolved}
            onChange={(event) => amend({ unsolved: event.currentTarget.checked ? "1" : "" })}
          />
          Unsolved
        </label>
      </div>
      <div class="card">
        {now.state === "refused" && now.value === null ? (
          <Refused refusal={now.refusal} again={load.again} />
        ) : now.state === "here" && shown.length === 0 ? (
          <Empty title={all.length === 0 ? "This board has no problems." : "No problem matches."}>
            {all.length > 0 && (
              <button
                type="button"
                class="button"
                onClick={() => amend({ q: "", difficulty: "", tag: "", unsolved: "" })}
              >
                Show all {all.length}
              </button>
            )}
          </Empty>
        ) : (
          <table class="problems">
            <thead>
              <tr>
                <th class="mark-column">
                  <span class="hidden-visually">solved</span>
                </th>
                <Heading column="title" label="problem" by={by} />
                <Heading column="difficulty" label="difficulty" by={by} />
                <th class="tags-column">tags</th>
                <Heading column="accepted" label="accepted" by={by} kind="right count-column" />
                <Heading column="submissions" label="submitted" by={by} kind="right count-column" />
              </tr>
            </thead>
            <tbody>
              {now.value === null ? (
                <SkeletonRows rows={12} columns={6} />
              ) : (
                shown.map((problem) => <Row key={problem.slug} problem={problem} />)
              )}
            </tbody>
          </table>
        )}
      </div>
      <p class="hidden-visually" role="status">
        {now.state === "here" ? `${shown.length} problems` : ""}
      </p>
    </main>
  );
}

/** Heading that sorts the list by its column. */
function Heading({ column, label, by, kind }: { column: Column; label: string; by: string; kind?: string }) {
  const now = order(by);
  const active = now?.column === column;
  const direction = !active ? "none" : now.descending ? "descending" : "ascending";
  return (
    <th class={kind} aria-sort={direction}>
      <button type="button" class="sort" title="Sort" onClick={() => amend({ sort: next(by, column) })}>
        {label}
        <span class="arrow" aria-hidden="true">
          {!active ? "" : now.descending ? "↓" : "↑"}
        </span>
      </button>
    </th>
  );
}

function Row({ problem }: { problem: ProblemSummary }) {
  return (
    <tr>
      <td class="mark-column">
        {problem.solved && (
          <span class="solved" title="Solved">
            <Icon name="check" />
            <span class="hidden-visually">solved</span>
          </span>
        )}
      </td>
      <td>
        <a class="quiet problem-title" href={`/problems/${problem.slug}`}>
          {problem.title}
        </a>
        <span class="dtypes">{problem.dtypes.join(" · ")}</span>
      </td>
      <td>
        <Depth difficulty={problem.difficulty} />
      </td>
      <td class="tags-column">
        <span class="tags">
          {problem.tags.map((tag) => (
            <button type="button" key={tag} class="chip" onClick={() => amend({ tag })}>
              {tag}
            </button>
          ))}
        </span>
      </td>
      <td class="right number count-column">
        {problem.submissions === 0 ? (
          <span class="dim">–</span>
        ) : (
          format.whole(problem.accepted)
        )}
      </td>
      <td class="right number count-column">
        {problem.submissions === 0 ? <span class="dim">–</span> : format.whole(problem.submissions)}
      </td>
    </tr>
  );
}
