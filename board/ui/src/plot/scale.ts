/** Plot scales: map values to pixels. */

export interface Scale {
  (value: number): number;
  ticks: number[];
}

/** Logarithmic scale with ticks at powers of ten. */
export function log(low: number, high: number, from: number, to: number): Scale {
  const a = Math.log10(low);
  const b = Math.log10(high);
  const place = (value: number) => from + ((Math.log10(value) - a) / (b - a)) * (to - from);
  const ticks: number[] = [];
  const every = Math.max(1, Math.ceil((b - a) / 8));
  for (let power = Math.ceil(a - 1e-9); power <= b + 1e-9; power += every) ticks.push(10 ** power);
  return Object.assign(place, { ticks });
}

export function linear(low: number, high: number, from: number, to: number, wanted: number): Scale {
  const place = (value: number) => from + ((value - low) / (high - low)) * (to - from);
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) ticks.push(tick);
  return Object.assign(place, { ticks });
}

/** Returns the ends of a logarithmic axis: powers of ten that enclose all values with a margin. */
export function decades(values: number[]): [number, number] {
  const usable = values.filter((value) => value > 0 && Number.isFinite(value));
  if (usable.length === 0) return [0.1, 10];
  const low = 10 ** Math.floor(Math.log10(Math.min(...usable)) - 0.15);
  const high = 10 ** Math.ceil(Math.log10(Math.max(...usable)) + 0.15);
  return [low, high];
}
