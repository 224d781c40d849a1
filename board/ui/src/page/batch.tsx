/** Results of one source on several devices, side by side, while they are judged. */

import * as api from "../api";
import type { SubmissionDetail } from "../contract";
import * as format from "../format";
import { useLoad } from "../load";
import { Empty, Refused, Skeleton } from "../part/state";
import { Emulated, Status } from "../part/status";
import { Wide } from "../part/wide";
import { parameter } from "../route";
import { useTitle } from "../title";

const REFRESH_MS = 1500;

export function BatchPage() {
  useTitle("Devices");
  const ids = parameter("ids")
    .split(",")
    .filter((id) => id !== "");
  const load = useLoad(async () => (ids.length === 0 ? [] : api.compare(ids)), [ids.join(",")], REFRESH_MS);
  const now = load.now.value;
  const all = now.value ?? [];
  const first = all[0];
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>{first === undefined ? "Devices" : `${first.title} on ${all.length} devices`}</h1>
          <p>One source, submitted to several devices.</p>
        </div>
        {first !== undefined && (
          <a class="button" href={`/problems/${first.problem}`}>
            To the problem
          </a>
        )}
      </div>
      {ids.length === 0 ? (
        <Empty title="No submissions are given.">
          <a href="/submissions">All submissions</a>
        </Empty>
      ) : all.length > 0 ? (
        <Table all={all} />
      ) : now.state === "refused" ? (
        <Refused refusal={now.refusal} again={load.again} />
      ) : (
        <Skeleton width="100%" height="10em" />
      )}
    </main>
  );
}

function Table({ all }: { all: SubmissionDetail[] }) {
  const longest = Math.max(...all.map((one) => one.avg_runtime_ms ?? 0));
  return (
    <Wide label="Results by device">
      <table>
        <thead>
          <tr>
            <th>device</th>
            <th>status</th>
            <th class="right">runtime</th>
            <th>of the longest</th>
            <th class="right">FLOP/s</th>
            <th>limited by</th>
            <th>more</th>
          </tr>
        </thead>
        <tbody>
          {all.map((one) => (
            <tr key={one.id}>
              <td>
                {one.gpu} {one.emulated && <Emulated />}
              </td>
              <td>
                <Status name={one.status} />
              </td>
              <td class="right number">{format.time(one.avg_runtime_ms)}</td>
              <td class="runtime-bar">
                {one.avg_runtime_ms != null && (
                  <meter min={0} max={longest} value={one.avg_runtime_ms} aria-label={`Runtime on ${one.gpu}`} />
                )}
              </td>
              <td class="right number">{one.avg_gflops == null ? "" : format.metric(one.avg_gflops * 1e9)}</td>
              <td>{limits(one)}</td>
              <td>
                <a href={`/submissions/${one.id}`}>Details</a>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

/** What limits the largest measured case; only software GPUs report it. */
function limits(one: SubmissionDetail): string {
  const measured = one.results.filter((result) => result.kind === "bench");
  const last = measured.at(-1);
  return last !== undefined && "limited_by" in last ? (last.limited_by ?? "") : "";
}
