/** Profile of a submission: the summary of a kernel, and its source lines. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { KernelReport, ProfileReport } from "../contract";
import * as format from "../format";
import { rate } from "../observed";
import { Line } from "./line";
import { Wide } from "./wide";

interface Properties {
  profile: ProfileReport;
  goTo?: (line: number, column: number) => void;
  /** Called with the kernel that is shown. */
  shown?: (kernel: KernelReport) => void;
}

export function Profile({ profile, goTo, shown }: Properties) {
  const chosen = useSignal(0);
  const kernel = profile.kernels[chosen.value] ?? profile.kernels[0];
  useEffect(() => {
    if (kernel !== undefined) shown?.(kernel);
  }, [kernel]);
  if (kernel === undefined) return <p>No kernel was launched.</p>;
  return (
    <section class="profile" aria-label="Profile">
      {!profile.correct && <p class="note">The outputs of this call are wrong.</p>}
      {profile.kernels.length > 1 && (
        <label>
          Kernel{" "}
          <select class="field" value={chosen.value} onChange={(event) => (chosen.value = Number(event.currentTarget.value))}>
            {profile.kernels.map((one, index) => (
              <option key={index} value={index}>
                {one.kernel}, {format.time(one.estimated_ms)}
              </option>
            ))}
          </select>
        </label>
      )}
      <Summary profile={profile} kernel={kernel} />
      <Lines kernel={kernel} goTo={goTo} />
      <p class="small dim">
        Instructions and bytes are exact. Waiting, cache hits and times are estimates of the performance model for the{" "}
        {profile.gpu}.
      </p>
    </section>
  );
}

function Summary({ profile, kernel }: { profile: ProfileReport; kernel: KernelReport }) {
  const facts: [string, string][] = [
    ["kernel", kernel.kernel],
    ["case", profile.case],
    ["estimate", format.time(kernel.estimated_ms)],
    ["limited by", kernel.limited_by],
    ["launches", format.whole(kernel.launches)],
    ["instructions", format.whole(kernel.instructions)],
    ["waves", `${format.whole(kernel.waves)}, ${format.waves(kernel.waves_per_simd)} per SIMD`],
    ["active lanes", `${format.waves(kernel.mean_active_lanes)} of 64`],
    ["HBM", format.bytes(kernel.hbm_bytes)],
    ["L1 hits", rate(kernel.l1)],
    ["L2 hits", rate(kernel.l2)],
    ["bank conflicts", kernel.bank_conflicts === 0 ? "none" : `${format.whole(kernel.bank_conflicts)} cycles`],
  ];
  return (
    <>
      <dl class="profile-facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <ul class="profile-resources" aria-label="Resources, as part of the estimated time">
        {kernel.resources.slice(0, 6).map((resource) => (
          <li key={resource.name}>
            <span>{resource.name}</span>
            <meter min={0} max={1} value={Math.min(1, resource.share)} aria-label={resource.name} />
            <span class="number">{format.percent(resource.share)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Lines({ kernel, goTo }: { kernel: KernelReport; goTo?: Properties["goTo"] }) {
  return (
    <Wide label="Source lines">
      <table class="cases" aria-label="Source lines">
        <thead>
          <tr>
            <th class="right">line</th>
            <th class="right">instructions</th>
            <th class="right">share</th>
            <th class="right" title="Part of the waves' time in which they wait at this line">
              waits
            </th>
            <th class="right" title="Mean number of active lanes, of 64">
              lanes
            </th>
            <th class="right">global memory</th>
            <th class="right" title="Part of the accessed 64-byte lines that some lane requested">
              line use
            </th>
            <th class="right">L1 hits</th>
            <th class="right">L2 hits</th>
            <th class="right">local memory</th>
            <th class="right" title="Cycles lost to bank conflicts of local memory">
              bank conflicts
            </th>
          </tr>
        </thead>
        <tbody>
          {kernel.lines.map((line) => (
            <tr key={line.line ?? "headers"}>
              <td class="right number">
                {line.line === null ? <span title="Code from headers">headers</span> : <Line line={line.line} goTo={goTo} />}
              </td>
              <td class="right number">{format.whole(line.instructions)}</td>
              <td class="right number">{format.percent(line.share)}</td>
              <td class="right number">{line.stalled === 0 ? "–" : format.percent(line.stalled)}</td>
              <td class="right number">{line.instructions === 0 ? "–" : format.waves(line.lanes)}</td>
              <td class="right number">{line.global_bytes === 0 ? "–" : format.bytes(line.global_bytes)}</td>
              <td class="right number">{line.line_use === 0 ? "–" : format.percent(line.line_use)}</td>
              <td class="right number">{rate(line.l1)}</td>
              <td class="right number">{rate(line.l2)}</td>
              <td class="right number">{line.local_bytes === 0 ? "–" : format.bytes(line.local_bytes)}</td>
              <td class="right number">{line.bank_conflicts === 0 ? "–" : format.whole(line.bank_conflicts)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
