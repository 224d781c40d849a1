/** The cases of a submission, filled in row by row. Rows of pending cases are reserved from the start, so the layout does not shift. */

import type { BenchmarkResult, TestResult } from "../contract";
import * as format from "../format";
import { Icon } from "./icon";
import { Skeleton } from "./state";
import { Wide } from "./wide";

interface TestProperties {
  tests: TestResult[];
  total: number | null;
  busy: boolean;
}

export function Tests({ tests, total, busy }: TestProperties) {
  const missing = busy ? Math.max(0, (total ?? 0) - tests.length) : 0;
  if (tests.length === 0 && missing === 0) return null;
  return (
    <Wide label="Checked cases">
      <table class="cases" aria-label="Checked cases">
        <thead>
          <tr>
            <th>checked</th>
            <th class="right">largest difference</th>
            <th class="right">time</th>
          </tr>
        </thead>
        <tbody>
          {tests.map((test) => (
            <tr key={test.test_id} class={test.status === "PASSED" ? "good" : "bad"}>
              <td>
                <span class="verdict">
                  <Icon name={test.status === "PASSED" ? "check" : "cross"} />
                  <span class="hidden-visually">{test.status === "PASSED" ? "passed" : "failed"}</span>
                </span>
                {test.name}
                {test.message !== undefined && <span class="dtypes">{test.message}</span>}
              </td>
              <td class="right number">{format.error(test.max_difference)}</td>
              <td class="right number">{format.time(test.runtime_ms)}</td>
            </tr>
          ))}
          {Array.from({ length: missing }, (_, row) => (
            <tr key={`to-come-${row}`} aria-hidden="true">
              <td>
                <Skeleton width="9em" />
              </td>
              <td />
              <td />
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

interface BenchProperties {
  benches: BenchmarkResult[];
  total: number | null;
  busy: boolean;
}

/** Hit rates of the modelled caches: heading and counters. */
const CACHES = [
  ["L1 hits", "l1_hits", "l1_accesses"],
  ["L2 hits", "l2_hits", "l2_accesses"],
  ["Infinity Cache hits", "infinity_hits", "infinity_accesses"],
] as const;

function share(hits: number | undefined, accesses: number | undefined): string {
  return accesses === undefined || accesses === 0 ? "–" : format.percent((hits ?? 0) / accesses);
}

export function Benches({ benches, total, busy }: BenchProperties) {
  const missing = busy ? Math.max(0, (total ?? 0) - benches.length) : 0;
  if (benches.length === 0 && missing === 0) return null;
  const counted = benches.some((bench) => bench.counts != null);
  const flops = benches.some((bench) => bench.gflops != null);
  const estimated = benches.some((bench) => bench.estimated);
  return (
    <Wide label="Measured cases">
      <table class="cases" aria-label="Measured cases">
        <thead>
          <tr>
            <th>measured</th>
            <th class="right">{estimated ? "estimate" : "median"}</th>
            {estimated ? (
              <th title="What limits the slowest kernel, by the performance model">limited by</th>
            ) : (
              <th class="right" title="95 % confidence interval of the median">
                interval
              </th>
            )}
            {flops && <th class="right">FLOP/s</th>}
            <th class="right">bytes/s</th>
            <th class="right" title="Shortest time that the device's roofline allows, divided by the measured time">
              of the roof
            </th>
            {estimated && CACHES.map(([name]) => (
              <th key={name} class="right">
                {name}
              </th>
            ))}
            {counted && <th class="right">instructions</th>}
          </tr>
        </thead>
        <tbody>
          {benches.map((bench) => (
            <tr key={bench.test_id}>
              <td>{bench.name}</td>
              <td class="right number">{format.time(bench.runtime_ms)}</td>
              {estimated ? (
                <td>{bench.limited_by ?? "–"}</td>
              ) : (
                <td class="right number dim">
                  {format.time(bench.ci_low_ms)} – {format.time(bench.ci_high_ms)}
                </td>
              )}
              {flops && (
                <td class="right number">{format.metric(bench.gflops == null ? null : bench.gflops * 1e9)}</td>
              )}
              <td class="right number">{format.metric(bench.gbytes_per_s * 1e9)}</td>
              <td class="right number">
                {bench.runtime_ms > 0 && bench.floor_ms > 0 ? format.percent(bench.floor_ms / bench.runtime_ms) : "–"}
              </td>
              {estimated && CACHES.map(([name, hits, accesses]) => (
                <td key={name} class="right number">
                  {share(bench.counts?.[hits], bench.counts?.[accesses])}
                </td>
              ))}
              {counted && <td class="right number">{format.whole(bench.counts?.instructions)}</td>}
            </tr>
          ))}
          {Array.from({ length: missing }, (_, row) => (
            <tr key={`to-come-${row}`} aria-hidden="true">
              <td>
                <Skeleton width="9em" />
              </td>
              <td colSpan={4 + (counted ? 1 : 0) + (flops ? 1 : 0) + (estimated ? CACHES.length : 0)} />
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
