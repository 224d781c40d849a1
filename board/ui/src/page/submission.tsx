/** One submission: verdict, roofline, spread of its times, and disassembly. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as api from "../api";
import { type BenchmarkResult, COUNTERS, type IsaListing, ROUTES, type SubmissionDetail } from "../contract";
import * as drafts from "../drafts";
import { Followed } from "../follow";
import * as format from "../format";
import { weights } from "../isa";
import { useLoad } from "../load";
import { refused } from "../notice";
import { Benches, Tests } from "../part/cases";
import { Code } from "../part/code";
import { Download } from "../part/download";
import { Isa } from "../part/isa";
import { Empty, Refused, Skeleton } from "../part/state";
import { ShareButton } from "../part/share";
import { Emulated, Status } from "../part/status";
import { Stepper } from "../part/stepper";
import { User } from "../part/user";
import { Verdict } from "../part/verdict";
import { Roofline } from "../plot/roofline";
import { Spread } from "../plot/spread";
import { navigate } from "../route";
import { recall, type Run } from "../run";
import { useTitle } from "../title";
import { Wide } from "../part/wide";

/** Where the parts of a submission come from: its own address, or a share link. */
export interface Source {
  detail: SubmissionDetail;
  isa: () => Promise<IsaListing[]>;
  /** Whether to follow its events; a share link shows what is stored. */
  live: boolean;
}

export function SubmissionPage({ id }: { id: string }) {
  const load = useLoad(() => api.submission(id), [id]);
  const now = load.now.value;
  useTitle(now.value === null ? "Submission" : `${now.value.title}, ${format.status(now.value.status, now.value.endpoint).toLowerCase()}`);
  if (now.value === null) {
    return (
      <main class="page">
        {now.state === "refused" ? (
          <>
            <h1 tabIndex={-1}>{now.refusal.status === 404 ? "No such submission" : "Submission"}</h1>
            <Refused refusal={now.refusal} again={load.again} />
          </>
        ) : (
          <div class="stack">
            <Skeleton width="45%" height="2em" />
            <Skeleton width="100%" height="9em" />
            <Skeleton width="100%" height="20em" />
          </div>
        )}
      </main>
    );
  }
  const source = { detail: now.value, isa: () => api.isa(id), live: true };
  return <Loaded source={source} again={load.again} />;
}

export function Loaded({ source, again }: { source: Source; again: () => void }) {
  const { detail } = source;
  const followed = useSignal<Followed | null>(null);
  const recalled = recall(detail);
  useEffect(() => {
    if (recalled.end !== null || detail.code === null || !source.live) return;
    const live = new Followed(detail.id, detail.endpoint);
    followed.value = live;
    // After the submission has ended, the server has more data than the events.
    const stop = live.run.subscribe((run) => {
      if (run.end !== null) again();
    });
    return () => {
      stop();
      live.stop();
    };
  }, [detail.id, recalled.end !== null]);
  const run: Run = recalled.end === null ? (followed.value?.run.value ?? recalled) : recalled;
  const emulated = run.end?.emulated ?? detail.emulated;
  const estimated = run.benches.some((bench) => bench.estimated);
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>
            <a class="quiet" href={`/problems/${detail.problem}`}>
              {detail.title}
            </a>
          </h1>
          <div class="row facts-line">
            <Status name={run.end?.status ?? run.status} endpoint={detail.endpoint} />
            <span>{detail.gpu}</span>
            {emulated && <Emulated />}
            <span class="dim">{detail.dtype}</span>
            <span class="dim">
              by <User name={detail.user} />
            </span>
            <span class="dim">{format.ago(detail.created_at)}</span>
          </div>
        </div>
        {source.live && <Actions detail={detail} />}
      </div>
      <div class="stack">
        <section class="card padded" aria-label="Verdict">
          <Stepper run={run} connected={followed.value?.connected.value ?? true} />
          <Verdict run={run} />
        </section>
        {run.benches.length > 0 && (
          <>
            <section class="card" aria-labelledby="measured">
              <header>
                <h2 id="measured">Measured</h2>
                <span class="small dim">
                  {estimated ? "estimates for the real GPU" : "medians, with their 95 % confidence intervals"}
                </span>
              </header>
              <Benches benches={run.benches} total={run.totalBenches} busy={run.end === null} />
            </section>
            <section class="card" aria-labelledby="roofline">
              <header>
                <h2 id="roofline">Roofline</h2>
                {emulated && <Emulated />}
              </header>
              <div class="body">
                <Roofline series={[{ name: "this", benches: run.benches }]} emulated={emulated} />
              </div>
            </section>
            {!estimated && (
              <section class="card" aria-labelledby="spread">
                <header>
                  <h2 id="spread">Spread of the samples</h2>
                  <span class="small dim">band: 95 % interval of the median</span>
                </header>
                <div class="body">
                  <Spread benches={run.benches} />
                </div>
              </section>
            )}
            <CountsOf benches={run.benches} />
          </>
        )}
        {run.tests.length > 0 && (
          <section class="card" aria-labelledby="checked">
            <header>
              <h2 id="checked">Checked</h2>
            </header>
            <Tests tests={run.tests} total={run.totalTests} busy={run.end === null} />
          </section>
        )}
        <Program source={source} run={run} />
      </div>
    </main>
  );
}

function Actions({ detail }: { detail: SubmissionDetail }) {
  const open = useSignal(detail.public);
  const others = useLoad(() => api.submissions({ problem: detail.problem, status: "BENCHMARKED", limit: 30 }), [detail.id])
    .now.value.value?.submissions.filter((one) => one.id !== detail.id);
  const publish = async () => {
    try {
      await api.publish(detail.id, !open.value);
      open.value = !open.value;
    } catch (cause) {
      refused(cause);
    }
  };
  const edit = () => {
    if (detail.code === null) return;
    const shape = /__global__\s+void\s+solution\b/.test(detail.code) ? "kernel" : "host";
    drafts.save(detail.problem, detail.dtype, shape, detail.code, "");
    drafts.choose(detail.problem, { dtype: detail.dtype, shape });
    navigate(`/problems/${detail.problem}`);
  };
  return (
    <div class="row">
      {others !== undefined && others.length > 0 && (
        <label>
          <span class="hidden-visually">Compare with</span>
          <select
            class="field"
            value=""
            onChange={(event) => navigate(`/compare?a=${event.currentTarget.value}&b=${detail.id}`)}
          >
            <option value="">Compare with …</option>
            {others.map((one) => (
              <option key={one.id} value={one.id}>
                {one.user}, {format.time(one.avg_runtime_ms)}, {format.ago(one.created_at)}
              </option>
            ))}
          </select>
        </label>
      )}
      {detail.code !== null && (
        <button type="button" class="button" onClick={edit}>
          Edit
        </button>
      )}
      {detail.mine && (
        <button type="button" class="button" aria-pressed={open.value} onClick={() => void publish()}>
          {open.value ? "Make private" : "Make public"}
        </button>
      )}
      {detail.mine && <ShareButton id={detail.id} start={detail.share ?? null} />}
      {detail.code !== null && (
        <>
          <Download path={api.at(ROUTES.submission_json, detail.id)} name={`${detail.id}.json`} label="JSON" />
          <Download path={api.at(ROUTES.submission_csv, detail.id)} name={`${detail.id}.csv`} label="CSV" />
        </>
      )}
    </div>
  );
}

function CountsOf({ benches }: { benches: BenchmarkResult[] }) {
  const counted = benches.filter((bench) => bench.counts != null);
  if (counted.length === 0) return null;
  const columns = ["instructions", "valu", "salu", "mfma", "vmem", "lds"] as const;
  return (
    <section class="card" aria-labelledby="counts">
      <header>
        <h2 id="counts">Instructions executed</h2>
        <span class="small dim">exact and reproducible</span>
      </header>
      <Wide label="Instructions executed">
        <table class="cases">
          <thead>
            <tr>
              <th>case</th>
              {columns.map((column) => (
                <th key={column} class="right">
                  {COUNTERS[column].label}
                </th>
              ))}
              <th class="right">{COUNTERS.bytes_read.label}</th>
              <th class="right">{COUNTERS.bytes_written.label}</th>
            </tr>
          </thead>
          <tbody>
            {counted.map((bench) => (
              <tr key={bench.test_id}>
                <td>{bench.name}</td>
                {columns.map((column) => (
                  <td key={column} class="right number">
                    {format.metric(bench.counts?.[column])}
                  </td>
                ))}
                <td class="right number">{format.bytes(bench.counts?.bytes_read)}</td>
                <td class="right number">{format.bytes(bench.counts?.bytes_written)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}

/** The source next to its disassembly. */
function Program({ source, run }: { source: Source; run: Run }) {
  const { detail } = source;
  const chosen = useSignal<number | null>(null);
  const load = useLoad(
    async () => (detail.code !== null && run.kernels.length > 0 && run.end !== null ? await source.isa() : []),
    [detail.id, run.end !== null, run.kernels.length],
  );
  const isa = load.now.value.value ?? [];
  const choose = (line: number) => {
    chosen.value = chosen.value === line ? null : line;
  };
  if (detail.code === null) {
    return (
      <section class="card">
        <Empty title="The code of this submission is private." />
      </section>
    );
  }
  return (
    <section class="card program" aria-labelledby="program">
      <header>
        <h2 id="program">{isa.length > 0 ? "Source and instructions" : "Source"}</h2>
        {isa.length > 0 && (
          <span class="small dim">select a line to highlight its instructions</span>
        )}
      </header>
      <div class={isa.length > 0 ? "program-panes" : "program-panes one"}>
        <div class="program-source">
          <Code code={detail.code} weights={isa.length > 0 ? weights(isa) : undefined} chosen={chosen.value} choose={choose} />
        </div>
        {isa.length > 0 && <Isa isa={isa} kernels={run.kernels} chosen={chosen.value} choose={choose} />}
      </div>
    </section>
  );
}
