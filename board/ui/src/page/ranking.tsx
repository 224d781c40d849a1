/** The overall ranking of a device, and the first ranks of all leaderboards. */

import * as api from "../api";
import type { Leader, RankingEntry } from "../contract";
import * as device from "../device";
import * as format from "../format";
import { useLoad } from "../load";
import { me } from "../me";
import { Devices } from "../part/devices";
import { Empty, Refused, SkeletonRows } from "../part/state";
import { Emulated } from "../part/status";
import { User } from "../part/user";
import { parameter } from "../route";
import { useTitle } from "../title";

const REFRESH_MS = 20_000;

export function RankingPage() {
  useTitle("Ranking");
  const devices = useLoad(api.devices, []).now.value;
  const gpu = parameter("gpu") || (device.pick(devices.value ?? [])?.gpu_type ?? "");
  const load = useLoad(async () => (gpu === "" ? null : api.ranking(gpu)), [gpu], REFRESH_MS);
  const now = load.now.value;
  const ranking = now.value;
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>Ranking</h1>
          <p>
            Points over all problems: 100, 200 or 400 for a solved one by its difficulty, and as many again, divided by the rank, on
            the leaderboard of its first element type. Equal points share a rank.
          </p>
        </div>
      </div>
      <div class="filters">
        <Devices devices={devices.value ?? []} gpu={gpu} />
      </div>
      {ranking?.emulated && (
        <p class="note emulated-note">
          <Emulated /> Results of the software GPU are never ranked with those of a GPU.
        </p>
      )}
      {now.state === "refused" && ranking === null ? (
        <div class="card">
          <Refused refusal={now.refusal} again={load.again} />
        </div>
      ) : (
        <div class="stack">
          <section class={`card${ranking?.emulated ? " emulated" : ""}`} aria-labelledby="overall">
            <header>
              <h2 id="overall">Overall</h2>
              {ranking !== null && <span class="small dim">{format.count(ranking.users, "user")}</span>}
            </header>
            {ranking !== null && ranking.entries.length === 0 ? (
              <Empty title="Nobody has solved a problem on this device yet.">
                <a href="/">Be the first</a>
              </Empty>
            ) : (
              <Overall entries={ranking?.entries ?? null} problems={ranking?.problems ?? 0} />
            )}
          </section>
          {ranking !== null && ranking.leaders.length > 0 && (
            <section class={`card${ranking.emulated ? " emulated" : ""}`} aria-labelledby="leaders">
              <header>
                <h2 id="leaders">Leaderboards</h2>
                <span class="small dim">the first rank of each problem</span>
              </header>
              <Leaders leaders={ranking.leaders} gpu={ranking.gpu} />
            </section>
          )}
        </div>
      )}
    </main>
  );
}

function Overall({ entries, problems }: { entries: RankingEntry[] | null; problems: number }) {
  const most = entries?.[0]?.points ?? 1;
  const shared = new Set<number>();
  entries?.forEach((entry, index) => {
    if (entry.rank !== index + 1) shared.add(entry.rank);
  });
  return (
    <table class="ranking">
      <thead>
        <tr>
          <th class="right rank-column">#</th>
          <th>user</th>
          <th class="right">points</th>
          <th class="bar-column">
            <span class="hidden-visually">points relative to the first</span>
          </th>
          <th class="right">solved</th>
          <th class="right count-column">first ranks</th>
        </tr>
      </thead>
      <tbody>
        {entries === null ? (
          <SkeletonRows rows={6} columns={6} />
        ) : (
          entries.map((entry) => (
            <tr key={entry.user} class={entry.user === me.value?.user ? "own" : undefined}>
              <td class="right number rank-column" title={shared.has(entry.rank) ? "Shared: the points are equal." : undefined}>
                {shared.has(entry.rank) && <span aria-hidden="true">=</span>}
                {entry.rank}
              </td>
              <td>
                <span class="problem-title">
                  <User name={entry.user} />
                </span>
              </td>
              <td class="right number">{format.whole(entry.points)}</td>
              <td class="bar-column">
                <span class="speed" style={{ width: `${Math.max(2, (entry.points / most) * 100)}%` }} />
              </td>
              <td class="right number">
                {entry.solved} <span class="dim count-column">of {problems}</span>
              </td>
              <td class="right number count-column">{entry.first_ranks}</td>
            </tr>
          ))
        )}
      </tbody>
    </table>
  );
}

function Leaders({ leaders, gpu }: { leaders: Leader[]; gpu: string }) {
  return (
    <table class="ranking">
      <thead>
        <tr>
          <th>problem</th>
          <th>first</th>
          <th class="right">run time</th>
          <th class="right count-column">users</th>
        </tr>
      </thead>
      <tbody>
        {leaders.map((leader) => (
          <tr key={leader.problem}>
            <td>
              <a class="quiet problem-title" href={`/leaderboard/${leader.problem}?gpu=${encodeURIComponent(gpu)}`}>
                {leader.title}
              </a>
            </td>
            <td>
              {leader.users.slice(0, 3).map((name, index) => (
                <span key={name}>
                  {index > 0 && ", "}
                  <User name={name} />
                </span>
              ))}
              {leader.users.length > 3 && <span class="dim"> and {leader.users.length - 3} more</span>}
            </td>
            <td class="right number">{format.time(leader.avg_runtime_ms)}</td>
            <td class="right number count-column">{leader.entries}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
