/** Profile of a user: ranks, solved problems and latest submissions. */

import * as api from "../api";
import type { Profile, SolvedProblem, SubmissionSummary } from "../contract";
import * as format from "../format";
import { useLoad } from "../load";
import { LoadedPage } from "../part/loaded";
import { Empty } from "../part/state";
import { Depth, Emulated, Status } from "../part/status";
import { useTitle } from "../title";

const LATEST = 10;
const REFRESH_MS = 20_000;

export function UserPage({ name }: { name: string }) {
  useTitle(name);
  const load = useLoad(() => api.profile(name), [name], REFRESH_MS);
  const latest = useLoad(() => api.submissions({ user: name, limit: LATEST }), [name], REFRESH_MS).now.value.value;
  const about = ({ submissions, accepted, mine }: Profile) =>
    `${format.count(submissions, "submission")}, ${format.whole(accepted)} correct${mine ? ". This is you." : ""}`;
  return (
    <LoadedPage title={name} load={load} about={about}>
      {(profile) => <Loaded profile={profile} latest={latest?.submissions ?? []} />}
    </LoadedPage>
  );
}

function Loaded({ profile, latest }: { profile: Profile; latest: SubmissionSummary[] }) {
  return (
    <div class="stack">
      {profile.standings.length > 0 && (
        <div class="devices">
          {profile.standings.map(({ gpu, emulated, entry, users }) => (
            <section key={`${gpu} ${emulated}`} class={`card device${emulated ? " emulated" : ""}`} aria-label={`Rank on ${gpu}`}>
              <div class="row">
                <h2>
                  <a class="quiet" href={`/ranking?gpu=${encodeURIComponent(gpu)}`}>
                    {gpu}
                  </a>
                </h2>
                {emulated && <Emulated />}
              </div>
              <dl class="facts">
                <div>
                  <dt>rank</dt>
                  <dd>
                    {entry.rank} <span class="dim">of {users}</span>
                  </dd>
                </div>
                <div>
                  <dt>points</dt>
                  <dd>{format.whole(entry.points)}</dd>
                </div>
                <div>
                  <dt>solved</dt>
                  <dd>{entry.solved}</dd>
                </div>
                <div>
                  <dt>first ranks</dt>
                  <dd>{entry.first_ranks}</dd>
                </div>
              </dl>
            </section>
          ))}
        </div>
      )}
      <section class="card" aria-labelledby="solved">
        <header>
          <h2 id="solved">Solved problems</h2>
        </header>
        {profile.solved.length === 0 ? <Empty title="None yet: a problem is solved once a submission is measured." /> : <Solved list={profile.solved} />}
      </section>
      <section class="card" aria-labelledby="latest">
        <header>
          <h2 id="latest">Latest submissions</h2>
          <a class="small" href={`/submissions?user=${encodeURIComponent(profile.user)}`}>
            All submissions
          </a>
        </header>
        {latest.length === 0 ? <Empty title="No submissions yet." /> : <Latest list={latest} />}
      </section>
    </div>
  );
}

function Solved({ list }: { list: SolvedProblem[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>problem</th>
          <th class="count-column">difficulty</th>
          <th class="device-column">device</th>
          <th class="right">run time</th>
          <th class="right" title="Rank on the leaderboard of this problem, device and element type">
            rank
          </th>
          <th class="right">points</th>
        </tr>
      </thead>
      <tbody>
        {list.map((one) => (
          <tr key={`${one.problem} ${one.gpu} ${one.emulated}`}>
            <td>
              <a class="quiet problem-title" href={`/problems/${one.problem}`}>
                {one.title}
              </a>
              <span class="dtypes">{one.dtype}</span>
            </td>
            <td class="count-column">
              <Depth difficulty={one.difficulty} />
            </td>
            <td class="device-column">
              {one.gpu} {one.emulated && <Emulated />}
            </td>
            <td class="right number">
              <a class="quiet" href={`/submissions/${one.submission_id}`}>
                {format.time(one.avg_runtime_ms)}
              </a>
            </td>
            <td class="right number">
              <a
                class="quiet"
                href={`/leaderboard/${one.problem}?${new URLSearchParams({ gpu: one.gpu, dtype: one.dtype })}`}
              >
                {one.rank}
              </a>
            </td>
            <td class="right number">{one.points}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Latest({ list }: { list: SubmissionSummary[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>problem</th>
          <th>status</th>
          <th class="right">run time</th>
          <th class="right when-column">when</th>
        </tr>
      </thead>
      <tbody>
        {list.map((one) => (
          <tr key={one.id}>
            <td>
              <a class="quiet problem-title" href={`/submissions/${one.id}`}>
                {one.title === "" ? one.endpoint : one.title}
              </a>
              <span class="dtypes">
                {one.dtype}, {one.gpu}
              </span>
            </td>
            <td>
              <Status name={one.status} endpoint={one.endpoint} />
            </td>
            <td class="right number">{format.time(one.avg_runtime_ms)}</td>
            <td class="right small dim when-column">{format.ago(one.created_at)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
