/** Problem statement, and the cases it is checked and measured with. */

import type { ProblemDetail, Starter } from "../contract";
import * as format from "../format";
import { amend, parameter } from "../route";
import { signature } from "../signature";
import { Discussion } from "./discussion";
import { Editorial } from "./editorial";
import { Icon } from "./icon";
import { Block } from "./sample";
import { Depth } from "./status";

interface Properties {
  problem: ProblemDetail;
  dtype: string;
  shape: keyof Starter;
  emulated: boolean;
  solved: boolean;
}

const TABS: [string, string][] = [
  ["", "Problem"],
  ["editorial", "Editorial"],
  ["discussion", "Discussion"],
];

export function Statement({ problem, dtype, shape, emulated, solved }: Properties) {
  const tab = parameter("tab");
  return (
    <section class="statement-pane" aria-label="Problem">
      <header>
        <h1 tabIndex={-1}>{problem.title}</h1>
        <div class="row">
          <Depth difficulty={problem.difficulty} />
          {solved && (
            <span class="chip good">
              <Icon name="check" /> solved
            </span>
          )}
          {problem.tags.map((tag) => (
            <a key={tag} class="chip quiet" href={`/?tag=${encodeURIComponent(tag)}`}>
              {tag}
            </a>
          ))}
        </div>
      </header>
      <div class="segments statement-tabs" role="group" aria-label="About this problem">
        {TABS.map(([name, label]) => (
          <button type="button" key={name} aria-pressed={tab === name} onClick={() => amend({ tab: name })}>
            {label}
          </button>
        ))}
      </div>
      {tab === "editorial" ? (
        <Editorial slug={problem.slug} solved={solved} />
      ) : tab === "discussion" ? (
        <Discussion slug={problem.slug} />
      ) : (
        <Task problem={problem} dtype={dtype} shape={shape} emulated={emulated} />
      )}
    </section>
  );
}

function Task({ problem, dtype, shape, emulated }: Omit<Properties, "solved">) {
  const tolerance = tolerances(problem, dtype);
  const place = emulated ? "emulated" : "real";
  const measured = problem.cases.filter((one) => one.set === "bench" && (one.place === null || one.place === place));
  return (
    <>
      {/* Safe: the server renders and sanitises the statement from its own files; it contains no user text. */}
      <div class="prose" dangerouslySetInnerHTML={{ __html: problem.statement_html }} />
      {problem.example !== null && (
        <section class="example" aria-labelledby="example">
          <h2 id="example">Example</h2>
          <p class="small dim">
            {problem.example.dtype}, {problem.example.case}: what <em>Sample</em> runs
          </p>
          <div class="sample-run">
            <Block title="input" values={problem.example.input} />
            <Block title="expected output" values={problem.example.output} />
          </div>
        </section>
      )}
      <div class="prose">
        <h2>Signature</h2>
        <pre class="block">{signature(problem.starters[dtype]?.[shape]) ?? problem.signature}</pre>
        <h2>Judged by</h2>
        <ul>
          {tolerance !== "" && <li>{tolerance}</li>}
          {measured.length > 0 && <li>Measured on {measured.map((one) => one.name).join("; ")}.</li>}
          {problem.flops_formula && (
            <li>
              Operations: <code>{problem.flops_formula}</code>
            </li>
          )}
          {problem.bytes_formula && (
            <li>
              Bytes: <code>{problem.bytes_formula}</code>
            </li>
          )}
        </ul>
      </div>
      <nav class="row" aria-label="More about this problem">
        <a href={`/leaderboard/${problem.slug}`}>Leaderboard</a>
        <a href={`/submissions?problem=${problem.slug}`}>Submissions</a>
        <span class="dim small number">
          {format.whole(problem.accepted)} of {format.whole(problem.submissions)} accepted
        </span>
      </nav>
    </>
  );
}

function tolerances(problem: ProblemDetail, dtype: string): string {
  const found = problem.tolerance[dtype];
  if (problem.exact || found === undefined) return "Every element must be exactly equal.";
  return `Every element within ${format.error(found.atol)} + ${format.error(found.rtol)} × |expected|.`;
}
