/** Devices, the queue, and today's cost. */

import * as api from "../api";
import type { DeviceInfo, Me } from "../contract";
import * as format from "../format";
import { useLoad } from "../load";
import { Empty, Refused, Skeleton } from "../part/state";
import { Emulated, Status } from "../part/status";
import { useTitle } from "../title";
import { Wide } from "../part/wide";

const REFRESH_MS = 3000;

export function QueuePage() {
  useTitle("Queue");
  const devices = useLoad(api.devices, [], REFRESH_MS);
  const me = useLoad(api.me, [], REFRESH_MS * 5);
  const queue = useLoad(api.queue, [], REFRESH_MS);
  const now = devices.now.value;
  const jobs = queue.now.value.value;
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>Queue and cost</h1>
          <p>Devices alternate between users, so many submissions of one user do not delay the others.</p>
        </div>
      </div>
      <div class="stack">
        {now.value === null && now.state === "refused" ? (
          <div class="card">
            <Refused refusal={now.refusal} again={devices.again} />
          </div>
        ) : (
          <div class="devices">
            {now.value === null ? (
              <Skeleton width="100%" height="9.5em" />
            ) : now.value.length === 0 ? (
              <div class="card">
                <Empty title="This board has no devices." />
              </div>
            ) : (
              now.value.map((one) => <DeviceCard key={`${one.gpu_type} ${one.name}`} device={one} />)
            )}
          </div>
        )}
        {me.now.value.value !== null && <Budget me={me.now.value.value} />}
        <section class="card" aria-labelledby="waiting">
          <header>
            <h2 id="waiting">Waiting and running</h2>
            <span class="small dim">refreshed every few seconds</span>
          </header>
          {jobs === null ? (
            queue.now.value.state === "refused" ? (
              <Refused refusal={queue.now.value.refusal} again={queue.again} />
            ) : (
              <Empty title={"\u00a0"} />
            )
          ) : jobs.length === 0 ? (
            <Empty title="No submissions are waiting or running." />
          ) : (
            <Wide label="Waiting and running">
              <table>
                <thead>
                  <tr>
                    <th class="right">place</th>
                    <th>problem</th>
                    <th>status</th>
                    <th>device</th>
                    <th>by</th>
                    <th class="right">wait</th>
                  </tr>
                </thead>
                <tbody>
                  {jobs.map((job) => (
                    <tr key={job.id}>
                      <td class="right number">{job.running ? "" : job.position}</td>
                      <td>
                        <a class="quiet" href={`/submissions/${job.id}`}>
                          {job.problem}
                        </a>
                      </td>
                      <td>
                        {job.running ? <span class="chip busy">Running</span> : <Status name="IN_QUEUE" />}
                      </td>
                      <td>{job.gpu}</td>
                      <td>{job.user}</td>
                      <td class="right number">{job.running ? "" : format.wait(job.expected_wait_s)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Wide>
          )}
        </section>
      </div>
    </main>
  );
}

const STATES: Record<string, string> = { ready: "good", draining: "warn", offline: "bad", provisioning: "busy" };
const PLACES: Record<string, string> = {
  embedded: "in this server",
  worker: "external worker",
  dstack: "rented on demand",
};

function DeviceCard({ device }: { device: DeviceInfo }) {
  return (
    <section class={`card device${device.emulated ? " emulated" : ""}`} aria-label={device.gpu_type}>
      <div class="row">
        <h2>{device.gpu_type}</h2>
        {device.emulated && <Emulated />}
        <span class="space" />
        <span class={`chip ${STATES[device.state] ?? ""}`}>{device.state}</span>
      </div>
      <p class="small dim">
        {device.name}
        {PLACES[device.place] ? `, ${PLACES[device.place]}` : ""}
        {device.warm ? "" : ", cold"}
      </p>
      <dl class="facts">
        <div>
          <dt>running</dt>
          <dd>
            {device.running} <span class="dim">of {device.slots}</span>
          </dd>
        </div>
        <div>
          <dt>waiting</dt>
          <dd>{format.whole(device.queue_length)}</dd>
        </div>
        <div>
          <dt>expected wait</dt>
          <dd>{format.wait(device.expected_wait_s)}</dd>
        </div>
        <div>
          <dt>price</dt>
          <dd>{device.price_per_hour > 0 ? `${format.money(device.price_per_hour)} per hour` : "free"}</dd>
        </div>
      </dl>
    </section>
  );
}

function Budget({ me }: { me: Me }) {
  const limit = me.budget.daily_usd;
  const spent = me.budget.spent_usd;
  const held = me.budget.reserved_usd;
  return (
    <section class="card padded" aria-labelledby="budget">
      <div class="row">
        <h2 id="budget">Today, {me.user}</h2>
        <span class="space" />
        <span class="number">
          {format.money(spent)} <span class="dim">{limit === null ? "spent, no limit" : `of ${format.money(limit)}`}</span>
        </span>
      </div>
      <p class="small dim">
        {held > 0 ? `${format.money(held)} reserved for waiting and running submissions. ` : ""}
        {me.limits.per_day === null
          ? "No limit on the number of submissions."
          : `At most ${format.whole(me.limits.per_minute)} submissions per minute and ${format.whole(me.limits.per_day)} per day.`}
      </p>
      {limit !== null && limit > 0 && (
        <span class="progress-track wide">
          <span class={spent / limit > 0.9 ? "high" : ""} style={{ width: `${Math.min(100, (spent / limit) * 100)}%` }} />
        </span>
      )}
    </section>
  );
}
