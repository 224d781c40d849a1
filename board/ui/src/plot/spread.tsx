/** Strip plot of all samples of every case, relative to the median, with its confidence interval. */

import type { BenchmarkResult } from "../contract";
import * as format from "../format";
import { linear } from "./scale";
import { useWidth } from "./width";

const ROW = 42;
const TOP = 8;
const BOTTOM = 34;

/** Samples beyond this multiple of the median are drawn at the edge. */
const FURTHEST = 1.6;

export interface Strip {
  name: string;
  median: number;
  low: number;
  high: number;
  samples: number[];
  beyond: number;
}

/** Returns the samples of a case as multiples of its median. */
export function strip(bench: BenchmarkResult): Strip {
  const median = bench.runtime_ms;
  const relative = bench.samples_ms.map((sample) => sample / median);
  return {
    name: bench.name,
    median,
    low: bench.ci_low_ms / median,
    high: Math.min(bench.ci_high_ms / median, FURTHEST),
    samples: relative.map((value) => Math.min(value, FURTHEST)),
    beyond: relative.filter((value) => value > FURTHEST).length,
  };
}

/** Returns a deterministic vertical offset of a sample, from a low-discrepancy sequence. */
function jitter(index: number): number {
  return ((index * 0.618034) % 1) - 0.5;
}

export function Spread({ benches }: { benches: BenchmarkResult[] }) {
  const [box, width] = useWidth(640);
  const strips = benches.filter((bench) => bench.runtime_ms > 0 && bench.samples_ms.length > 0).map(strip);
  if (strips.length === 0) return <p class="dim">No samples are stored.</p>;
  const narrow = width < 520;
  const left = narrow ? 10 : Math.min(230, width * 0.32);
  const row = narrow ? ROW + 18 : ROW;
  const values = strips.flatMap((one) => [...one.samples, one.low, one.high]);
  const reach = Math.max(0.02, ...values.map((value) => Math.abs(value - 1)));
  const x = linear(Math.max(0, 1 - Math.min(reach, 1 - Math.min(...values) + 0.02)), 1 + reach * 1.05, left, width - 14, narrow ? 3 : 6);
  const height = TOP + strips.length * row + BOTTOM;
  return (
    <div class="plot" ref={box} style={{ minHeight: `${height}px` }}>
      <svg width={width} height={height} role="img" aria-label={strips.map(described).join(" ")}>
        {x.ticks.map((tick) => (
          <g key={tick} class="tick">
            <line x1={x(tick)} x2={x(tick)} y1={TOP} y2={height - BOTTOM} />
            <text x={x(tick)} y={height - BOTTOM + 16} text-anchor="middle">
              {tick === 1 || Math.abs(tick - 1) < 1e-9 ? "median" : `${tick > 1 ? "+" : "−"}${percentage(tick)}`}
            </text>
          </g>
        ))}
        {strips.map((one, index) => {
          const top = TOP + index * row;
          const middle = top + (narrow ? 18 : 0) + ROW / 2;
          return (
            <g key={one.name}>
              <text class="row-name" x={narrow ? left : 0} y={narrow ? top + 14 : middle - 3}>
                {clip(one.name, narrow ? 34 : 28)}
              </text>
              <text
                class="row-value"
                x={narrow ? width - 14 : 0}
                y={narrow ? top + 14 : middle + 13}
                text-anchor={narrow ? "end" : "start"}
              >
                {format.time(one.median)}
              </text>
              <rect
                class="interval"
                x={x(one.low)}
                width={Math.max(2, x(one.high) - x(one.low))}
                y={middle - 15}
                height={30}
                rx="3"
              />
              {one.samples.map((sample, place) => (
                <circle key={place} class="sample" cx={x(sample)} cy={middle + jitter(place) * 20} r="2.6" />
              ))}
              <line class="median" x1={x(1)} x2={x(1)} y1={middle - 16} y2={middle + 16} />
              {one.beyond > 0 && (
                <text class="row-value" x={width - 14} y={middle - 12} text-anchor="end">
                  {one.beyond} beyond →
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function percentage(tick: number): string {
  const value = Math.abs(tick - 1) * 100;
  return `${Number(value.toPrecision(2))} %`;
}

function clip(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function described(one: Strip): string {
  return `${one.name}: median ${format.time(one.median)}, ${one.samples.length} samples, interval ${format.percent(
    one.low - 1,
  )} to ${format.percent(one.high - 1)}.`;
}
