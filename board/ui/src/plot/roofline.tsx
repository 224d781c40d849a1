/** Roofline plot: the device's limits, and the cases below them. */

import { useSignal } from "@preact/signals";
import type { BenchmarkResult, Roofline as Roof } from "../contract";
import * as format from "../format";
import { decades, log } from "./scale";
import { useWidth } from "./width";

export interface Series {
  name: string;
  benches: BenchmarkResult[];
}

interface Dot {
  series: number;
  name: string;
  intensity: number;
  flops: number;
  roof: number;
  bound: "memory" | "compute";
  /** Units of the compute roof; empty if they are not known. */
  unit: string;
}

const HEIGHT = 320;
const LEFT = 62;
const RIGHT = 14;
const TOP = 14;
const BOTTOM = 40;

/** Returns the cases that can be plotted: those with known work. */
export function dots(series: Series[]): Dot[] {
  return series.flatMap(({ benches }, index) =>
    benches.flatMap((bench) => {
      const roof = bench.roofline;
      if (!roof?.flops || !roof.bytes || !(bench.runtime_ms > 0)) return [];
      const intensity = roof.intensity ?? roof.flops / roof.bytes;
      const flops = roof.flops / (bench.runtime_ms / 1000);
      const slope = roof.peak_bytes_per_s * intensity;
      return [
        {
          series: index,
          name: bench.name,
          intensity,
          flops,
          roof: Math.min(slope, roof.peak_flops),
          bound: slope < roof.peak_flops ? ("memory" as const) : ("compute" as const),
          unit: roof.peak_unit ?? "",
        },
      ];
    }),
  );
}

export function Roofline({ series, emulated }: { series: Series[]; emulated: boolean }) {
  const [box, width] = useWidth(640);
  const shown = useSignal<number | null>(null);
  const all = dots(series);
  const roof = series.flatMap(({ benches }) => benches).find((bench) => bench.roofline != null)?.roofline;
  if (roof == null || all.length === 0) {
    return (
      <p class="dim">No roofline: this problem does not define its number of floating-point operations.</p>
    );
  }
  const ridge = roof.peak_flops / roof.peak_bytes_per_s;
  const [xLow, xHigh] = decades([...all.map((dot) => dot.intensity), ridge]);
  const [yLow, yHigh] = decades([...all.map((dot) => dot.flops), roof.peak_flops]);
  const x = log(xLow, xHigh, LEFT, width - RIGHT);
  const y = log(yLow, yHigh, HEIGHT - BOTTOM, TOP);
  const at = all[shown.value ?? -1];
  return (
    <div class="plot" ref={box} style={{ minHeight: `${HEIGHT + 28}px` }}>
      <svg width={width} height={HEIGHT} role="img" aria-label={described(all, roof)}>
        {x.ticks.map((tick) => (
          <g key={tick} class="tick">
            <line x1={x(tick)} x2={x(tick)} y1={TOP} y2={HEIGHT - BOTTOM} />
            <text x={x(tick)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
              {power(tick)}
            </text>
          </g>
        ))}
        {y.ticks.map((tick) => (
          <g key={tick} class="tick">
            <line x1={LEFT} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 8} y={y(tick) + 4} text-anchor="end">
              {format.metric(tick).replace(".00", "").replace(/\.0+ /, " ")}
            </text>
          </g>
        ))}
        <text class="axis" x={width - RIGHT} y={HEIGHT - 6} text-anchor="end">
          FLOP per byte
        </text>
        <text class="axis" x={LEFT + 6} y={TOP + 10}>
          FLOP/s
        </text>
        <Roofs roof={roof} x={x} y={y} xLow={xLow} xHigh={xHigh} yLow={yLow} />
        {at && (
          <line class="gap" x1={x(at.intensity)} x2={x(at.intensity)} y1={y(at.roof)} y2={y(at.flops)} />
        )}
        {all.map((dot, index) => (
          <circle
            key={index}
            class={`dot series-${dot.series}`}
            cx={x(dot.intensity)}
            cy={y(dot.flops)}
            r={index === shown.value ? 7 : 5.5}
            tabindex={0}
            role="img"
            aria-label={sentence(dot)}
            onPointerEnter={() => (shown.value = index)}
            onPointerLeave={() => (shown.value = null)}
            onFocus={() => (shown.value = index)}
            onBlur={() => (shown.value = null)}
          />
        ))}
      </svg>
      <p class="small plot-note" aria-hidden="true">
        {at ? (
          <>
            {series.length > 1 && <b>{series[at.series]?.name}: </b>}
            {sentence(at)}
          </>
        ) : (
          <span class="dim">
            {emulated
              ? "The roofs are those of the emulated device; the times are estimates of the performance model."
              : "Hover over a case to see its distance from the roof."}
          </span>
        )}
      </p>
    </div>
  );
}

interface RoofProperties {
  roof: Roof;
  x: (value: number) => number;
  y: (value: number) => number;
  xLow: number;
  xHigh: number;
  yLow: number;
}

function Roofs({ roof, x, y, xLow, xHigh, yLow }: RoofProperties) {
  const ridge = roof.peak_flops / roof.peak_bytes_per_s;
  const start = Math.max(xLow, yLow / roof.peak_bytes_per_s);
  const line = [
    `M${x(start)} ${y(start * roof.peak_bytes_per_s)}`,
    `L${x(Math.min(ridge, xHigh))} ${y(Math.min(ridge, xHigh) * roof.peak_bytes_per_s)}`,
    ridge < xHigh ? `L${x(xHigh)} ${y(roof.peak_flops)}` : "",
  ].join("");
  const middle = Math.sqrt(start * Math.min(ridge, xHigh));
  const slope =
    (Math.atan2(
      y(middle * 1.2 * roof.peak_bytes_per_s) - y(middle * roof.peak_bytes_per_s),
      x(middle * 1.2) - x(middle),
    ) *
      180) /
    Math.PI;
  return (
    <g class="roofs">
      <path class="under" d={`${line}L${x(xHigh)} ${y(yLow)}L${x(start)} ${y(yLow)}Z`} />
      <path class="roof" d={line} />
      {ridge < xHigh && (
        <text x={x(xHigh) - 4} y={y(roof.peak_flops) - 7} text-anchor="end">
          {roofLabel(roof)}
        </text>
      )}
      <text
        transform={`translate(${x(middle)} ${y(middle * roof.peak_bytes_per_s) - 8}) rotate(${slope})`}
        text-anchor="middle"
      >
        {format.metric(roof.peak_bytes_per_s, "B/s")}
      </text>
    </g>
  );
}

/** Returns the height of the flat roof, and the units that it is the peak of. */
export function roofLabel(roof: Roof): string {
  const peak = format.metric(roof.peak_flops, "FLOP/s");
  return roof.peak_unit ? `${peak} ${roof.peak_unit}` : peak;
}

function sentence(dot: Dot): string {
  const share = format.percent(dot.flops / dot.roof);
  const roof = dot.bound === "compute" && dot.unit !== "" ? `${dot.unit} roof` : `${dot.bound} roof`;
  return `${dot.name}: ${format.metric(dot.flops, "FLOP/s")}, ${share} of what its ${roof} allows`;
}

function described(all: Dot[], roof: Roof): string {
  return (
    `Roofline: roofs of ${format.metric(roof.peak_bytes_per_s, "bytes per second")} and ` +
    `${format.metric(roof.peak_flops, "FLOP per second")}${roof.peak_unit ? ` (${roof.peak_unit})` : ""}; ${all.length} cases.`
  );
}

function power(value: number): string {
  return value >= 0.01 && value < 10_000 ? String(Number(value.toPrecision(3))) : `10${superscript(Math.log10(value))}`;
}

function superscript(value: number): string {
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  return String(Math.round(value)).replace(/[-\d]/g, (character) => (character === "-" ? "⁻" : (digits[Number(character)] ?? "")));
}
