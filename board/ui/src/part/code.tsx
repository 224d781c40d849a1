/** Read-only source code with numbered, selectable lines. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Piece } from "../highlight";

/** Highlighted lines of a source; plain until the grammar is loaded. */
export function useHighlight(code: string): Piece[][] {
  const lines = useSignal<Piece[][] | null>(null);
  useEffect(() => {
    let gone = false;
    lines.value = null;
    void import("../highlight").then(({ highlight }) => {
      if (!gone) lines.value = highlight(code);
    });
    return () => {
      gone = true;
    };
  }, [code]);
  return lines.value ?? code.split("\n").map((text) => [{ text, kind: "" }]);
}

export function Pieces({ pieces }: { pieces: Piece[] }) {
  return (
    <>
      {pieces.map((piece, index) =>
        piece.kind === "" ? piece.text : <span key={index} class={piece.kind}>{piece.text}</span>,
      )}
    </>
  );
}

interface Properties {
  code: string;
  /** Number of instructions by line. Lines with instructions are selectable. */
  weights?: Map<number, number>;
  chosen?: number | null;
  choose?: (line: number) => void;
}

export function Code({ code, weights, chosen, choose }: Properties) {
  const lines = useHighlight(code);
  const heaviest = Math.max(1, ...(weights?.values() ?? []));
  return (
    <div class="code" role="group" aria-label="Source">
      {lines.map((pieces, index) => {
        const number = index + 1;
        const weight = weights?.get(number) ?? 0;
        const content = (
          <>
            <span class="code-number">{number}</span>
            {weights && (
              <span class="code-weight" aria-hidden="true">
                <span style={{ width: `${(weight / heaviest) * 100}%` }} />
              </span>
            )}
            <span class="code-text">
              <Pieces pieces={pieces} />
              {"\n"}
            </span>
          </>
        );
        return weight > 0 && choose ? (
          <button
            type="button"
            key={number}
            class="code-line"
            aria-pressed={chosen === number}
            title={`${weight} instructions`}
            onClick={() => choose(number)}
          >
            {content}
          </button>
        ) : (
          <div key={number} class="code-line">
            {content}
          </div>
        );
      })}
    </div>
  );
}
