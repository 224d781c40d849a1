/** Leaderboard of a problem for one GPU and element type. The software GPU has a separate leaderboard. */

import * as api from "../api";
import { type LeaderboardEntry, ROUTES } from "../contract";
import * as device from "../device";
import * as format from "../format";
import { tied } from "../interval";
import { useLoad } from "../load";
import { Devices } from "../part/devices";
import { Download } from "../part/download";
import { Empty, Refused, SkeletonRows } from "../part/state";
import { EmbedLeaderboard } from "../part/embed";
import { Emulated, NotDeterministic } from "../part/status";
import { User } from "../part/user";
import { amend, parameter } from "../route";
import { useTitle } from "../title";

export function LeaderboardPage({ slug }: { slug: string }) {
  const problem = useLoad(() => api.problem(slug), [slug]).now.value;
  const devices = useLoad(api.devices, []).now.value;
  const gpu = parameter("gpu") || (device.pick(devices.value ?? [])?.gpu_type ?? "");
  // The server uses the problem's first type if none is given.
  const dtype = parameter("dtype");
  const load = useLoad(async () => (gpu === "" ? null : api.leaderboard(slug, gpu, dtype)), [slug, gpu, dtype]);
  const title = problem.value?.title ?? slug;
  useTitle(`${title}, leaderboard`);
  const now = load.now.value;
  const board = now.value;
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>{title}</h1>
          <p>
            The best submission of each user, ranked by the geometric mean of the medians. Submissions whose 95 % intervals overlap
            share a rank. <a href={`/problems/${slug}`}>Solve it</a>
          </p>
        </div>
        <div class="row">
          {board != null && <EmbedLeaderboard board={board} />}
          {board != null && (
            <Download
              path={`${api.at(ROUTES.leaderboard, `${slug}.csv`)}?gpu=${encodeURIComponent(board.gpu)}&dtype=${board.dtype}`}
              name={`${slug}-${board.gpu}-${board.dtype}.csv`}
              label="CSV"
            />
          )}
        </div>
      </div>
      <div class="filters">
        <Devices devices={devices.value ?? []} gpu={gpu} />
        {(problem.value?.dtypes.length ?? 0) > 1 && (
          <label>
            <span class="hidden-visually">Element type</span>
            <select
              class="field"
              value={board?.dtype ?? dtype}
              onChange={(event) => amend({ dtype: event.currentTarget.value })}
            >
              {problem.value?.dtypes.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      {board?.emulated && (
        <p class="note emulated-note">
          <Emulated /> These ran on the software GPU. Instruction counts are exact. Times are estimates for the real GPU by
          a performance model, and are never ranked with measured ones.
        </p>
      )}
      <div class={`card${board?.emulated ? " emulated" : ""}`}>
        {now.state === "refused" ? (
          <Refused refusal={now.refusal} again={load.again} />
        ) : board !== null && board.entries.length === 0 ? (
          <Empty title={`There are no solutions in ${board.dtype} on this device yet.`}>
            <a href={`/problems/${slug}`}>Be the first</a>
          </Empty>
        ) : (
          <Entries entries={board?.entries ?? null} estimated={board?.emulated ?? false} />
        )}
      </div>
    </main>
  );
}

function Entries({ entries, estimated }: { entries: LeaderboardEntry[] | null; estimated: boolean }) {
  const best = entries?.[0]?.avg_runtime_ms ?? null;
  const counted = entries?.some((entry) => entry.instructions != null) ?? false;
  return (
    <table class="ranking">
      <thead>
        <tr>
          <th class="right rank-column">#</th>
          <th>by</th>
          <th class="right">{estimated ? "estimate" : "runtime"}</th>
          {!estimated && (
            <th class="right interval-column" title="95 % confidence interval of the run time">
              interval
            </th>
          )}
          <th class="bar-column">
            <span class="hidden-visually">speed relative to the best</span>
          </th>
          <th class="right flops-column">FLOP/s</th>
          {counted && <th class="right">instructions</th>}
          <th class="right when-column">when</th>
        </tr>
      </thead>
      <tbody>
        {entries === null ? (
          <SkeletonRows rows={6} columns={7} />
        ) : (
          entries.map((entry) => (
            <tr key={entry.submission_id}>
              <td class="right number rank-column" title={tied(entries, entry) ? "Shared: the intervals overlap." : undefined}>
                {tied(entries, entry) && <span aria-hidden="true">=</span>}
                {entry.rank}
              </td>
              <td>
                <User name={entry.user} />
                {entry.public && <span class="dtypes">code is public</span>} {!entry.deterministic && <NotDeterministic />}
              </td>
              <td class="right number">
                <a class="quiet" href={`/submissions/${entry.submission_id}`}>
                  {format.time(entry.avg_runtime_ms)}
                </a>
                {!estimated && (
                  <span class="small dim interval-below">{format.range(entry.ci_low_ms, entry.ci_high_ms)}</span>
                )}
              </td>
              {!estimated && (
                <td class="right number dim interval-column">
                  {format.range(entry.ci_low_ms, entry.ci_high_ms) || "–"}
                </td>
              )}
              <td class="bar-column">
                {best !== null && entry.avg_runtime_ms != null && (
                  <span class="speed" style={{ width: `${Math.max(2, (best / entry.avg_runtime_ms) * 100)}%` }} />
                )}
              </td>
              <td class="right number flops-column">
                {format.metric(entry.avg_gflops == null ? null : entry.avg_gflops * 1e9)}
              </td>
              {counted && <td class="right number">{format.whole(entry.instructions)}</td>}
              <td class="right small dim when-column">{format.ago(entry.created_at)}</td>
            </tr>
          ))
        )}
      </tbody>
    </table>
  );
}
