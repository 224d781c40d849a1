/** Output of a compiler or program, with links to source locations. */

import { pieces } from "../compiler";

interface Properties {
  text: string;
  label: string;
  goTo?: (line: number, column: number) => void;
}

export function Console({ text, label, goTo }: Properties) {
  return (
    <pre class="console" tabIndex={0} role="region" aria-label={label}>
      {pieces(text.replace(/\n+$/, "")).map((line, index) => (
        <span key={index} class="console-line">
          {line.map((piece, at) =>
            piece.line !== undefined && goTo ? (
              <button
                type="button"
                key={at}
                class="place"
                title={`Go to line ${piece.line}`}
                onClick={() => goTo(piece.line ?? 1, piece.column ?? 1)}
              >
                {piece.text}
              </button>
            ) : (
              <span key={at} class={piece.severity === undefined ? undefined : `said-${piece.severity}`}>
                {piece.text}
              </span>
            ),
          )}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
