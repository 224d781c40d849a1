/** Differences of a wrong answer: expected and actual elements, and their positions in the output. */

import type { DebugInfo } from "../contract";
import { digits, index } from "../difference";
import * as format from "../format";
import { Wide } from "./wide";

export function Differences({ info }: { info: DebugInfo }) {
  const rows = Object.entries(info.sample_differences ?? {});
  const worst = Math.max(...rows.map(([, row]) => Math.abs(Number(row.diff))).filter(Number.isFinite), 0);
  return (
    <section class="differences" aria-label="Differences">
      <header>
        <h3>
          {info.case !== undefined ? <>In case {info.case}</> : "Differences"}
          {info.output !== undefined && (
            <>
              , <code>{info.output}</code>
            </>
          )}
        </h3>
        {info.message !== undefined && info.mismatches === undefined && <p class="dim">{info.message}</p>}
      </header>
      <dl class="facts">
        {info.mismatches !== undefined && (
          <div>
            <dt>wrong elements</dt>
            <dd>
              {format.whole(info.mismatches)}
              {info.total_elements !== undefined && (
                <span class="dim">
                  {" "}
                  of {format.whole(info.total_elements)} ({format.percent(info.mismatches / info.total_elements)})
                </span>
              )}
            </dd>
          </div>
        )}
        {info.max_difference !== undefined && (
          <div>
            <dt>largest difference</dt>
            <dd>{format.error(info.max_difference)}</dd>
          </div>
        )}
        {info.mean_difference !== undefined && (
          <div>
            <dt>mean difference</dt>
            <dd>{format.error(info.mean_difference)}</dd>
          </div>
        )}
      </dl>
      {rows.length > 0 && (
        <div class="difference-body">
          <Wide label="Elements that differ">
            <table class="difference-table">
              <thead>
                <tr>
                  <th>element</th>
                  <th class="right">expected</th>
                  <th class="right">yours</th>
                  <th class="right">difference</th>
                </tr>
              </thead>
              <tbody>
                {rows.map(([place, row]) => {
                  const expected = String(row.expected);
                  const { same, rest } = digits(expected, String(row.actual));
                  const size = Math.abs(Number(row.diff));
                  const heat = worst > 0 && Number.isFinite(size) ? size / worst : 1;
                  return (
                    <tr key={place}>
                      <td class="number dim">{place}</td>
                      <td class="number right">{expected}</td>
                      <td class="number right">
                        {same}
                        <mark>{rest}</mark>
                      </td>
                      <td class="number right heat">
                        <span class="heat-bar" style={{ width: `${Math.max(4, heat * 100)}%` }} aria-hidden="true" />
                        <span>{format.error(row.diff)}</span>
                      </td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </Wide>
          <Map places={rows.map(([place]) => index(place))} shape={info.shape ?? []} />
        </div>
      )}
    </section>
  );
}

const MAP = 132;

/** Map of the output's last two dimensions, with the listed elements marked. */
function Map({ places, shape }: { places: number[][]; shape: number[] }) {
  const columns = shape.at(-1) ?? 0;
  if (columns === 0) return null;
  const flat = shape.length === 1;
  const rows = flat ? 1 : shape.slice(0, -1).reduce((product, size) => product * size, 1);
  const rowOf = (place: number[]) =>
    place.slice(0, -1).reduce((row, at, dimension) => row * (shape[dimension] ?? 1) + at, 0);
  const scale = Math.min(MAP / columns, MAP / rows);
  const width = Math.max(12, flat ? MAP : columns * scale);
  const height = Math.max(12, flat ? 12 : rows * scale);
  const dot = Math.max(1.6, Math.min(5, scale / 2));
  return (
    <figure class="difference-map">
      <svg width={width + 12} height={height + 12} viewBox={`-6 -6 ${width + 12} ${height + 12}`} role="img"
        aria-label={`Positions of the listed elements in an output of ${shape.join(" by ")}`}>
        <rect width={width} height={height} rx="2" />
        {places.map((place) => (
          <circle
            key={place.join()}
            cx={(((place.at(-1) ?? 0) + 0.5) / columns) * width}
            cy={((rowOf(place) + 0.5) / rows) * height}
            r={dot}
          />
        ))}
      </svg>
      <figcaption class="small dim number">{shape.join(" × ")}</figcaption>
    </figure>
  );
}
