/** The sample: what went in, what came out, what should have, with the elements that differ in colour. */

import type { BoardEvent } from "../contract";
import { Wide } from "./wide";

export function Sample({ event }: { event: BoardEvent }) {
  return (
    <section class="sample" aria-label="Sample">
      <Block title="input" value={event.input} />
      <Block title="expected" value={event.expected_output} />
      <Block title="yours" value={event.output} against={event.expected_output} />
    </section>
  );
}

function Block({ title, value, against }: { title: string; value: unknown; against?: unknown }) {
  if (value === undefined || value === null) return null;
  return (
    <div class="sample-block">
      <h3>{title}</h3>
      <Value value={value} against={against} />
    </div>
  );
}

/** Numbers in rows, named parts one after another, anything else as text. */
function Value({ value, against }: { value: unknown; against?: unknown }) {
  if (Array.isArray(value)) {
    const rows: unknown[][] = value.some(Array.isArray) ? flattened(value) : [value];
    const expected: unknown[][] | null = Array.isArray(against)
      ? against.some(Array.isArray)
        ? flattened(against)
        : [against]
      : null;
    return (
      <Wide label="Values" kind="matrix">
        <table>
          <tbody>
            {rows.map((row, y) => (
              <tr key={y}>
                {row.map((cell, x) => {
                  const wrong = expected !== null && differs(cell, expected[y]?.[x]);
                  return (
                    <td key={x} class={`number right${wrong ? " wrong" : ""}`}>
                      {String(cell)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    );
  }
  if (typeof value === "object" && value !== null) {
    const other = against as Record<string, unknown> | undefined;
    return (
      <dl class="sample-parts">
        {Object.entries(value).map(([name, part]) => (
          <div key={name}>
            <dt>
              <code>{name}</code>
            </dt>
            <dd>
              <Value value={part} against={other?.[name]} />
            </dd>
          </div>
        ))}
      </dl>
    );
  }
  const wrong = against !== undefined && differs(value, against);
  return <pre class={`sample-text${wrong ? " wrong" : ""}`}>{String(value)}</pre>;
}

/** Rows of the last dimension. */
function flattened(value: unknown[]): unknown[][] {
  return value.flatMap((part) =>
    Array.isArray(part) ? (part.some(Array.isArray) ? flattened(part) : [part]) : [[part]],
  );
}

/** A sample is small and shown to a few digits; what is within a hundred-thousandth looks the same and is. */
export function differs(one: unknown, two: unknown): boolean {
  if (one === two) return false;
  const a = Number(one);
  const b = Number(two);
  if (Number.isNaN(a) || Number.isNaN(b)) return String(one) !== String(two);
  return Math.abs(a - b) > 1e-5 * Math.max(1, Math.abs(b));
}
