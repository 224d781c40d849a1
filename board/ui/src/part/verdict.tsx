/** Verdict on a submission, with hints. */

import type { KernelReport, Status } from "../contract";
import * as format from "../format";
import type { Run } from "../run";
import { Console } from "./console";
import { Differences } from "./difference";
import { Findings } from "./findings";
import { Profile } from "./profile";
import { Sample } from "./sample";
import { Emulated, NotDeterministic } from "./status";

interface Properties {
  run: Run;
  goTo?: (line: number, column: number) => void;
  /** Called with the kernel of a profile that is shown. */
  profiled?: (kernel: KernelReport) => void;
}

const HINTS: Partial<Record<Status, string>> = {
  TIME_LIMIT_EXCEEDED: "Common causes: an endless loop, a barrier that not every thread reaches, or too much work.",
  MEMORY_LIMIT_EXCEEDED: "The program asked for more memory than a submission may have.",
  RUNTIME_ERROR: "A common cause is an access outside of a buffer: check the bounds of the last block.",
};

export function Verdict({ run, goTo, profiled }: Properties) {
  const end = run.end;
  return (
    <>
      {run.notes.map((note) => (
        <p key={note} class="small note">
          {format.sentence(note)}
        </p>
      ))}
      {end === null ? (
        <p class="verdict-line dim" aria-hidden="true">
          {run.message !== "" ? run.message : `${format.status(run.status)} …`}
        </p>
      ) : (
        <Ended run={run} goTo={goTo} profiled={profiled} />
      )}
      {end?.status !== "COMPILE_ERROR" && run.warnings.trim() !== "" && (
        <details class="warnings">
          <summary>Compiler warnings</summary>
          <Console text={run.warnings} label="Compiler warnings" goTo={goTo} />
        </details>
      )}
    </>
  );
}

function Ended({ run, goTo, profiled }: Properties) {
  const end = run.end!;
  const tone = format.tone(end.status);
  const failed = run.tests.filter((test) => test.status === "FAILED").length;
  const explained = end.status === "WRONG_ANSWER" || end.status === "PASSED" || end.status === "FAILED";
  const hint = HINTS[end.status];
  return (
    <>
      <div class={`verdict-line ${tone}`}>
        <strong>{format.status(end.status, run.endpoint)}</strong>
        {end.status === "BENCHMARKED" && (
          <>
            <span class="big number">{format.time(end.avg_runtime_ms)}</span>
            {run.benches.some((bench) => bench.estimated) ? (
              <span class="dim" title="The performance model's estimate for the real GPU">
                estimate
              </span>
            ) : (
              <span class="number dim" title="95 % confidence interval of the geometric mean">
                {format.range(end.ci_low_ms, end.ci_high_ms)}
              </span>
            )}
            {end.avg_gflops != null && <span class="number">{format.metric(end.avg_gflops * 1e9, "FLOP/s")}</span>}
            <span class="small dim">geometric mean</span>
          </>
        )}
        {end.status === "WRONG_ANSWER" && failed > 0 && (
          <span>{format.failing(failed, run.tests.length)}</span>
        )}
        {end.emulated && <Emulated />}
        {!end.emulated && end.device !== undefined && <span class="small dim">{end.device}</span>}
        {end.deterministic === false && <NotDeterministic />}
        {(end.flags ?? []).map((flag) => (
          <span key={flag} class="chip warn" title="Flagged for review, and not ranked until then.">
            {flag}
          </span>
        ))}
        <span class="space" />
        <span class="small dim number">
          {end.execution_time !== undefined ? format.time(end.execution_time * 1000) : ""}
          {end.cost_usd !== undefined && end.cost_usd > 0 ? ` · ${format.money(end.cost_usd)}` : ""}
        </span>
      </div>
      {!explained && end.status !== "BENCHMARKED" && end.status !== "COMPILE_ERROR" && (end.message ?? end.error) && (
        <p>{format.sentence(end.message ?? end.error ?? "")}</p>
      )}
      {hint !== undefined && <p class="dim">{hint}</p>}
      {end.rule !== undefined && (
        <p class="dim">
          Rule: <code>{end.rule}</code>
        </p>
      )}
      {end.details !== undefined && end.details.trim() !== "" && (
        <Console
          text={end.details}
          label={end.status === "COMPILE_ERROR" ? "Compiler output" : "Details"}
          goTo={end.status === "COMPILE_ERROR" ? goTo : undefined}
        />
      )}
      {(end.status === "PASSED" || end.status === "FAILED") && <Sample event={end} />}
      {end.report !== undefined && <Findings report={end.report} goTo={goTo} />}
      {end.profile !== undefined && <Profile profile={end.profile} goTo={goTo} shown={profiled} />}
      {run.wrong !== null && <Differences info={run.wrong} />}
      {(["stdout", "stderr"] as const).map((name) => {
        const text = end[name];
        return text === undefined || text.trim() === "" ? null : (
          <section key={name}>
            <h3>{name}</h3>
            <Console text={text} label={name} />
          </section>
        );
      })}
    </>
  );
}
