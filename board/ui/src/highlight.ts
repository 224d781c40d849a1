/** C++ as coloured pieces, line by line, for code that is only shown. Uses the editor's own grammar. */

import { cppLanguage } from "@codemirror/lang-cpp";
import { classHighlighter, highlightCode } from "@lezer/highlight";

export interface Piece {
  text: string;
  kind: string;
}

export function highlight(code: string): Piece[][] {
  const lines: Piece[][] = [[]];
  highlightCode(
    code,
    cppLanguage.parser.parse(code),
    classHighlighter,
    (text, kind) => lines.at(-1)?.push({ text, kind }),
    () => lines.push([]),
  );
  return lines;
}
