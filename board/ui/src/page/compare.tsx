/** Comparison of two submissions: metrics, cases and code changes. */

import * as api from "../api";
import type { SubmissionDetail } from "../contract";
import { lines } from "../difference";
import * as format from "../format";
import { type Change, change, type Interval, interval, words } from "../interval";
import { useLoad } from "../load";
import { Pieces, useHighlight } from "../part/code";
import { Empty, Refused, Skeleton } from "../part/state";
import { Emulated, Status } from "../part/status";
import { Roofline } from "../plot/roofline";
import { amend, parameter } from "../route";
import { recall, type Run } from "../run";
import { useTitle } from "../title";
import { Wide } from "../part/wide";

export function ComparePage() {
  useTitle("Compare");
  const a = parameter("a");
  const b = parameter("b");
  const load = useLoad(async () => (a === "" || b === "" ? [] : api.compare([a, b])), [a, b]);
  const now = load.now.value;
  const [first, second] = now.value ?? [];
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>Compare</h1>
          <p>The second submission compared with the first: differences in run time and code.</p>
        </div>
        {first !== undefined && second !== undefined && (
          <button type="button" class="button" onClick={() => amend({ a: b, b: a })}>
            Swap
          </button>
        )}
      </div>
      {a === "" || b === "" ? (
        <Empty title="Choose two submissions to compare.">
          <a href="/submissions">Pick two</a>
        </Empty>
      ) : first !== undefined && second !== undefined ? (
        <Both first={first} second={second} />
      ) : now.state === "refused" ? (
        <Refused refusal={now.refusal} again={load.again} />
      ) : (
        <div class="stack">
          <Skeleton width="100%" height="14em" />
          <Skeleton width="100%" height="20em" />
        </div>
      )}
    </main>
  );
}

interface Fact {
  name: string;
  first: number | null | undefined;
  second: number | null | undefined;
  show: (value: number | null | undefined) => string;
  /** Whether less or more is better. With "none" no ratio is shown. */
  better: "less" | "more" | "none";
  /** How measured times changed, by their intervals. Counts are exact and have none. */
  change?: Change | null;
}

/** How measured times changed; null if one of them was not measured. */
function changed(first: Interval | null, second: Interval | null): Change | null {
  return first === null || second === null ? null : change(first, second);
}

function facts(a: SubmissionDetail, b: SubmissionDetail, one: Run, two: Run): Fact[] {
  const first = one.kernels[0];
  const second = two.kernels[0];
  const sum = (run: Run, field: "instructions" | "bytes_read" | "bytes_written") =>
    run.benches.some((bench) => bench.counts != null)
      ? run.benches.reduce((total, bench) => total + (bench.counts?.[field] ?? 0), 0)
      : null;
  const means = [a, b].map((detail) => interval(detail.avg_runtime_ms, detail.ci_low_ms, detail.ci_high_ms));
  const runtime = changed(means[0] ?? null, means[1] ?? null);
  const all: Fact[] = [
    {
      name: "runtime",
      first: a.avg_runtime_ms,
      second: b.avg_runtime_ms,
      show: format.time,
      better: "less",
      change: runtime,
    },
    {
      name: "FLOP/s",
      first: a.avg_gflops == null ? null : a.avg_gflops * 1e9,
      second: b.avg_gflops == null ? null : b.avg_gflops * 1e9,
      show: (value) => format.metric(value),
      better: "more",
      // The same times in another unit.
      change: runtime,
    },
    { name: "instructions", first: sum(one, "instructions"), second: sum(two, "instructions"), show: format.whole, better: "less" },
    { name: "bytes read", first: sum(one, "bytes_read"), second: sum(two, "bytes_read"), show: format.bytes, better: "less" },
    { name: "bytes written", first: sum(one, "bytes_written"), second: sum(two, "bytes_written"), show: format.bytes, better: "less" },
    { name: "VGPRs", first: first?.vgprs, second: second?.vgprs, show: format.whole, better: "none" },
    { name: "SGPRs", first: first?.sgprs, second: second?.sgprs, show: format.whole, better: "none" },
    { name: "LDS", first: first?.lds_bytes, second: second?.lds_bytes, show: format.bytes, better: "none" },
    { name: "scratch", first: first?.scratch_bytes, second: second?.scratch_bytes, show: format.bytes, better: "none" },
    { name: "waves per SIMD", first: first?.waves_per_simd, second: second?.waves_per_simd, show: format.waves, better: "none" },
    { name: "compile", first: one.compileMs, second: two.compileMs, show: format.time, better: "none" },
  ];
  return all.filter((fact) => fact.first != null || fact.second != null);
}

function Both({ first, second }: { first: SubmissionDetail; second: SubmissionDetail }) {
  const one = recall(first);
  const two = recall(second);
  const mixed = first.emulated !== second.emulated;
  const names = [...new Set([...one.benches, ...two.benches].map((bench) => bench.name))];
  return (
    <div class="stack">
      {first.problem !== second.problem && (
        <p class="note">These submissions are for different problems; their numbers are not comparable.</p>
      )}
      {mixed && <p class="note">One ran on the software GPU, the other on a GPU: their times must not be compared.</p>}
      {first.emulated && second.emulated && (
        <p class="note">Both ran on the software GPU: times are estimates of its performance model; counts are exact.</p>
      )}
      <section class="card" aria-labelledby="numbers">
        <header>
          <h2 id="numbers">Numbers</h2>
        </header>
        <Wide label="Numbers">
          <table class="compare">
            <thead>
              <tr>
                <td />
                {[first, second].map((detail, index) => (
                  <th key={index} class="right" scope="col">
                    <a href={`/submissions/${detail.id}`}>
                      {index === 0 ? "first" : "second"}, {detail.user}
                    </a>
                    <div>
                      <Status name={detail.status} /> {detail.emulated && <Emulated />}
                    </div>
                    <div class="dim">
                      {detail.gpu}, {detail.dtype}, {format.ago(detail.created_at)}
                    </div>
                  </th>
                ))}
                <th class="right">second is</th>
              </tr>
            </thead>
            <tbody>
              {facts(first, second, one, two).map((fact) => (
                <tr key={fact.name}>
                  <th scope="row">{fact.name}</th>
                  <td class="right number">{fact.show(fact.first)}</td>
                  <td class="right number">{fact.show(fact.second)}</td>
                  <td class="right">
                    <Ratio fact={fact} hide={mixed} />
                  </td>
                </tr>
              ))}
            </tbody>
            <tbody>
              {names.length > 0 && (
                <tr>
                  <th class="group" colSpan={4} scope="rowgroup">
                    Medians of the cases
                  </th>
                </tr>
              )}
              {names.map((name) => {
                const left = one.benches.find((bench) => bench.name === name);
                const right = two.benches.find((bench) => bench.name === name);
                const fact: Fact = {
                  name,
                  first: left?.runtime_ms,
                  second: right?.runtime_ms,
                  show: format.time,
                  better: "less",
                  change: changed(
                    interval(left?.runtime_ms, left?.ci_low_ms, left?.ci_high_ms),
                    interval(right?.runtime_ms, right?.ci_low_ms, right?.ci_high_ms),
                  ),
                };
                return (
                  <tr key={`case ${name}`}>
                    <th scope="row">{name}</th>
                    <td class="right number" title={format.range(left?.ci_low_ms, left?.ci_high_ms)}>
                      {format.time(fact.first)}
                    </td>
                    <td class="right number" title={format.range(right?.ci_low_ms, right?.ci_high_ms)}>
                      {format.time(fact.second)}
                    </td>
                    <td class="right">
                      <Ratio fact={fact} hide={mixed} />
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </Wide>
      </section>
      {one.benches.length > 0 && two.benches.length > 0 && !mixed && (
        <section class="card" aria-labelledby="both-roofs">
          <header>
            <h2 id="both-roofs">Roofline</h2>
            <span class="small">
              <i class="key series-0" /> first <i class="key series-1" /> second
            </span>
          </header>
          <div class="body">
            <Roofline
              series={[
                { name: "first", benches: one.benches },
                { name: "second", benches: two.benches },
              ]}
              emulated={first.emulated}
            />
          </div>
        </section>
      )}
      <section class="card" aria-labelledby="code-difference">
        <header>
          <h2 id="code-difference">Code</h2>
        </header>
        {first.code === null || second.code === null ? (
          <Empty title="The code of one of them is private." />
        ) : (
          <Changes left={first.code} right={second.code} />
        )}
      </section>
    </div>
  );
}

function Ratio({ fact, hide }: { fact: Fact; hide: boolean }) {
  const { first, second, better } = fact;
  if (hide || better === "none" || !first || !second) return null;
  if (fact.change != null) {
    const tone = { same: "dim", faster: "gain", slower: "loss" }[fact.change.kind];
    return (
      <span class={tone} title="By the 95 % confidence intervals of the times.">
        {words(fact.change)}
      </span>
    );
  }
  if (first === second) return <span class="dim">the same</span>;
  const gain = better === "less" ? first / second : second / first;
  const times = gain > 1 ? gain : 1 / gain;
  return (
    <span class={gain > 1 ? "gain" : "loss"}>
      {times.toFixed(2)}× {gain > 1 ? "better" : "worse"}
    </span>
  );
}

/** Unchanged lines shown around each change; others are left out. */
const AROUND = 4;

function Changes({ left, right }: { left: string; right: string }) {
  const leftPieces = useHighlight(left);
  const rightPieces = useHighlight(right);
  const pairs = lines(left.split("\n"), right.split("\n"));
  const near = pairs.map((_, index) =>
    pairs.slice(Math.max(0, index - AROUND), index + AROUND + 1).some((pair) => pair.kind !== "same"),
  );
  if (!near.includes(true)) return <Empty title="The code is the same." />;
  const rows = [];
  let skipped = 0;
  for (const [index, pair] of pairs.entries()) {
    if (!near[index]) {
      skipped += 1;
      continue;
    }
    if (skipped > 0) {
      rows.push(
        <div class="change-gap" key={`gap ${index}`}>
          {skipped} lines the same
        </div>,
      );
      skipped = 0;
    }
    rows.push(
      <div class={`change ${pair.kind}`} key={index}>
        <span class="code-number">{pair.left === null ? "" : pair.left + 1}</span>
        <span class={pair.left === null ? "side none" : "side before"}>
          {pair.left !== null && <Pieces pieces={leftPieces[pair.left] ?? []} />}
        </span>
        <span class="code-number">{pair.right === null ? "" : pair.right + 1}</span>
        <span class={pair.right === null ? "side none" : "side after"}>
          {pair.right !== null && <Pieces pieces={rightPieces[pair.right] ?? []} />}
        </span>
      </div>,
    );
  }
  if (skipped > 0) rows.push(<div class="change-gap" key="gap end">{skipped} unchanged lines</div>);
  return (
    <Wide label="Changes in the code" kind="changes">
      <div class="changes-inner">{rows}</div>
    </Wide>
  );
}
