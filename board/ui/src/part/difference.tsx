/** Differences of a wrong answer: for each output, expected and actual elements, and their positions. */

import type { DebugInfo, Difference, OutputDifferences } from "../contract";
import { digits, KINDS, kinds, place } from "../difference";
import * as format from "../format";
import { Wide } from "./wide";

export function Differences({ info }: { info: DebugInfo }) {
  // Events of older submissions are streamed as they were stored, without a list of outputs.
  const outputs = info.outputs ?? [];
  const wrong = outputs.filter((output) => output.mismatches > 0);
  const right = outputs.filter((output) => output.mismatches === 0);
  return (
    <section class="differences" aria-label="Differences">
      <header>
        <h3>In case {info.case}</h3>
        {wrong.length === 0 && info.message !== "" && <p class="dim">{info.message}</p>}
      </header>
      {wrong.map((output) => (
        <Output key={output.output} output={output} />
      ))}
      {right.length > 0 && (
        <p class="dim">
          All elements are right in{" "}
          {right.map((output, index) => (
            <span key={output.output}>
              {index > 0 && ", "}
              <code>{output.output}</code>
            </span>
          ))}
          .
        </p>
      )}
    </section>
  );
}

function Output({ output }: { output: OutputDifferences }) {
  const { samples } = output;
  return (
    <section class="difference-output" aria-label={`Differences of ${output.output}`}>
      <h4>
        <code>{output.output}</code>
      </h4>
      <dl class="facts">
        <div>
          <dt>wrong elements</dt>
          <dd>
            {format.whole(output.mismatches)}
            <span class="dim">
              {" "}
              of {format.whole(output.total_elements)} ({format.percent(output.mismatches / output.total_elements)})
            </span>
          </dd>
        </div>
        {output.not_a_number > 0 && (
          <div>
            <dt>not a number</dt>
            <dd>{format.whole(output.not_a_number)}</dd>
          </div>
        )}
        {output.infinite > 0 && (
          <div>
            <dt>infinite</dt>
            <dd>{format.whole(output.infinite)}</dd>
          </div>
        )}
        <div>
          <dt>largest difference</dt>
          <dd>{format.error(output.max_difference)}</dd>
        </div>
        <div>
          <dt>mean difference</dt>
          <dd>{format.error(output.mean_difference)}</dd>
        </div>
      </dl>
      {samples.length > 0 && (
        <div class="difference-body">
          <Wide label={`Elements of ${output.output} that differ`}>
            <Table samples={samples} />
          </Wide>
          <Map samples={samples} shape={output.shape} />
        </div>
      )}
    </section>
  );
}

function Table({ samples }: { samples: Difference[] }) {
  const worst = Math.max(...samples.map((sample) => Math.abs(Number(sample.diff))).filter(Number.isFinite), 0);
  return (
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
        {samples.map((sample) => {
          const { same, rest } = digits(sample.expected, sample.actual);
          const size = Math.abs(Number(sample.diff));
          const heat = worst > 0 && Number.isFinite(size) ? size / worst : 1;
          return (
            <tr key={place(sample.index)} class={sample.kind}>
              <td class="number dim">{place(sample.index)}</td>
              <td class="number right">{sample.expected}</td>
              <td class="number right">
                {same}
                <mark>{rest}</mark>
              </td>
              <td class="number right heat">
                {sample.kind === "number" && (
                  <span class="heat-bar" style={{ width: `${Math.max(4, heat * 100)}%` }} aria-hidden="true" />
                )}
                <span>{format.error(sample.diff)}</span>
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

const MAP = 132;

/** Map of the output's last two dimensions, with the listed elements marked by their kind. */
function Map({ samples, shape }: { samples: Difference[]; shape: number[] }) {
  const columns = shape.at(-1) ?? 0;
  if (columns === 0) return null;
  const flat = shape.length === 1;
  const rows = flat ? 1 : shape.slice(0, -1).reduce((product, size) => product * size, 1);
  const rowOf = (index: number[]) =>
    index.slice(0, -1).reduce((row, at, dimension) => row * (shape[dimension] ?? 1) + at, 0);
  const scale = Math.min(MAP / columns, MAP / rows);
  const width = Math.max(12, flat ? MAP : columns * scale);
  const height = Math.max(12, flat ? 12 : rows * scale);
  const dot = Math.max(1.6, Math.min(5, scale / 2));
  const found = kinds(samples);
  return (
    <figure class="difference-map">
      <svg
        width={width + 12}
        height={height + 12}
        viewBox={`-6 -6 ${width + 12} ${height + 12}`}
        role="img"
        aria-label={`Positions of the listed elements in an output of ${shape.join(" by ")}`}
      >
        <rect width={width} height={height} rx="2" />
        {samples.map(({ index, kind }) => (
          <circle
            key={index.join()}
            class={kind}
            cx={(((index.at(-1) ?? 0) + 0.5) / columns) * width}
            cy={((rowOf(index) + 0.5) / rows) * height}
            r={dot}
          />
        ))}
      </svg>
      <figcaption class="small dim">
        <span class="number">{shape.join(" × ")}</span>
        {(found.length > 1 || found[0] !== "number") && (
          <ul class="difference-legend">
            {found.map((kind) => (
              <li key={kind}>
                <i class={kind} aria-hidden="true" /> {KINDS[kind]}
              </li>
            ))}
          </ul>
        )}
      </figcaption>
    </figure>
  );
}
