/** Submissions, newest first; two of them can be picked for comparison. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { identity } from "../account";
import * as api from "../api";
import type { Status as StatusName, SubmissionSummary } from "../contract";
import * as format from "../format";
import { Refused, SkeletonRows, Empty } from "../part/state";
import { Emulated, Status } from "../part/status";
import { User } from "../part/user";
import { amend, navigate, parameter } from "../route";
import { useTitle } from "../title";

const STATUSES: readonly StatusName[] = [
  "BENCHMARKED",
  "CHECKED",
  "WRONG_ANSWER",
  "COMPILE_ERROR",
  "RUNTIME_ERROR",
  "TIME_LIMIT_EXCEEDED",
  "MEMORY_LIMIT_EXCEEDED",
  "REJECTED",
  "CANCELLED",
];

const PAGE = 50;

export function SubmissionsPage() {
  useTitle("Submissions");
  const list = useSignal<SubmissionSummary[] | null>(null);
  const next = useSignal<string | null>(null);
  const refusal = useSignal<api.Refusal | null>(null);
  const picked = useSignal<string[]>([]);
  const turn = useSignal(0);
  const filter = {
    problem: parameter("problem"),
    status: parameter("status"),
    mine: parameter("mine"),
    user: parameter("user"),
  };
  const more = async (before?: string) => {
    try {
      const page = await api.submissions({ ...filter, limit: PAGE, before });
      list.value = before === undefined ? page.submissions : [...(list.value ?? []), ...page.submissions];
      next.value = page.next;
      refusal.value = null;
    } catch (cause) {
      refusal.value = cause instanceof api.Refusal ? cause : new api.Refusal(0, String(cause));
    }
  };
  useEffect(() => {
    list.value = null;
    void more();
  }, [filter.problem, filter.status, filter.mine, filter.user, identity.value, turn.value]);
  const toggle = (id: string) => {
    picked.value = picked.value.includes(id)
      ? picked.value.filter((other) => other !== id)
      : [...picked.value, id].slice(-2);
  };
  const [a, b] = picked.value;
  const comparable = a !== undefined && b !== undefined;
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>Submissions</h1>
          <p>All verdicts and measurements. Select two to compare them.</p>
        </div>
        <button
          type="button"
          class="button primary"
          disabled={!comparable}
          onClick={() => navigate(`/compare?a=${a}&b=${b}`)}
        >
          Compare{picked.value.length > 0 ? ` (${picked.value.length} of 2)` : ""}
        </button>
      </div>
      <div class="filters">
        <div class="segments" role="group" aria-label="Whose">
          <button type="button" aria-pressed={filter.mine !== "1"} onClick={() => amend({ mine: "" })}>
            Everyone's
          </button>
          <button type="button" aria-pressed={filter.mine === "1"} onClick={() => amend({ mine: "1" })}>
            Mine
          </button>
        </div>
        <label>
          <span class="hidden-visually">Status</span>
          <select class="field" value={filter.status} onChange={(event) => amend({ status: event.currentTarget.value })}>
            <option value="">Any status</option>
            {STATUSES.map((status) => (
              <option key={status} value={status}>
                {format.status(status)}
              </option>
            ))}
          </select>
        </label>
        {filter.user !== "" && (
          <span class="chip busy">
            {filter.user}
            <button type="button" class="chip-close" aria-label="All users" onClick={() => amend({ user: "" })}>
              ×
            </button>
          </span>
        )}
        {filter.problem !== "" && (
          <span class="chip busy">
            {filter.problem}
            <button type="button" class="chip-close" aria-label="All problems" onClick={() => amend({ problem: "" })}>
              ×
            </button>
          </span>
        )}
      </div>
      <div class="card">
        {refusal.value !== null && list.value === null ? (
          <Refused refusal={refusal.value} again={() => (turn.value += 1)} />
        ) : list.value !== null && list.value.length === 0 ? (
          <Empty title="No submissions yet.">
            <a href="/">Pick a problem</a>
          </Empty>
        ) : (
          <table class="submissions">
            <thead>
              <tr>
                <th class="mark-column">
                  <span class="hidden-visually">compare</span>
                </th>
                <th>problem</th>
                <th>status</th>
                <th class="right">runtime</th>
                <th class="device-column">device</th>
                <th class="user-column">by</th>
                <th class="right when-column">when</th>
              </tr>
            </thead>
            <tbody>
              {list.value === null ? (
                <SkeletonRows rows={10} columns={7} />
              ) : (
                list.value.map((one) => (
                  <tr key={one.id}>
                    <td class="mark-column">
                      <input
                        type="checkbox"
                        aria-label={`Compare ${one.title}, ${format.ago(one.created_at)}`}
                        checked={picked.value.includes(one.id)}
                        onChange={() => toggle(one.id)}
                      />
                    </td>
                    <td>
                      <a class="quiet problem-title" href={`/submissions/${one.id}`}>
                        {one.title}
                      </a>
                      <span class="dtypes">
                        {one.dtype}
                        {one.endpoint === "full" ? "" : ` · ${one.endpoint}`}
                      </span>
                    </td>
                    <td>
                      <Status name={one.status} endpoint={one.endpoint} />
                    </td>
                    <td class="right number">{format.time(one.avg_runtime_ms)}</td>
                    <td class="device-column">
                      {one.gpu} {one.emulated && <Emulated />}
                    </td>
                    <td class="user-column">
                      <User name={one.user} />
                    </td>
                    <td class="right small dim when-column">{format.ago(one.created_at)}</td>
                  </tr>
                ))
              )}
            </tbody>
          </table>
        )}
      </div>
      {next.value !== null && (
        <div class="more">
          <button type="button" class="button" onClick={() => void more(next.value ?? undefined)}>
            Older
          </button>
        </div>
      )}
    </main>
  );
}
