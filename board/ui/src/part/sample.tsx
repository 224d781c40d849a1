/** The sample: inputs, outputs and expected outputs, with differing elements coloured. */

import type { SampleArray, SampleValue } from "../contract";
import type { BoardEvent } from "../event";
import * as format from "../format";
import { differs, kind, rows, shown } from "../sample";
import { Wide } from "./wide";

export function Sample({ event }: { event: BoardEvent }) {
  return (
    <section class="sample-run" aria-label="Sample">
      <Block title="input" values={event.input} />
      <Block title="expected" values={event.expected_output} />
      <Block title="yours" values={typeof event.output === "string" ? undefined : event.output} against={event.expected_output} />
    </section>
  );
}

interface Properties {
  title: string;
  values: Record<string, SampleValue> | undefined;
  against?: Record<string, SampleValue>;
}

/** One column of a sample: the values by name, with differing elements coloured. */
export function Block({ title, values, against }: Properties) {
  if (values === undefined) return null;
  return (
    <div class="sample-block">
      <h3>{title}</h3>
      <dl class="sample-parts">
        {ordered(values).map(([name, value]) => (
          <div key={name} class={isArray(value) ? undefined : "scalar"}>
            <dt>
              <code>{name}</code>
              {isArray(value) && <span class="small dim number"> {value.shape.join(" × ")}</span>}
            </dt>
            <dd>{isArray(value) ? <Matrix label={name} value={value} against={against?.[name]} /> : <code>{shown(value)}</code>}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** Orders arrays before scalars. */
function ordered(values: Record<string, SampleValue>): [string, SampleValue][] {
  return Object.entries(values).sort(([, one], [, two]) => Number(isArray(two)) - Number(isArray(one)));
}

function isArray(value: SampleValue): value is SampleArray {
  return typeof value === "object";
}

function Matrix({ label, value, against }: { label: string; value: SampleArray; against?: SampleValue }) {
  const expected = against !== undefined && isArray(against) ? against.values : null;
  const columns = value.shape.at(-1) ?? 1;
  const size = value.shape.reduce((product, extent) => product * extent, 1);
  return (
    <Wide label={label} kind="matrix">
      <table>
        <tbody>
          {rows(value).map((row, y) => (
            <tr key={y}>
              {row.map((cell, x) => (
                <td
                  key={x}
                  class={`number right ${kind(cell)}${expected !== null && differs(cell, expected[y * columns + x]) ? " wrong" : ""}`}
                >
                  {shown(cell)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {value.values.length < size && (
        <p class="small dim">
          the first {format.whole(value.values.length)} of {format.whole(size)} elements
        </p>
      )}
    </Wide>
  );
}
