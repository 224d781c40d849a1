/** Syntax highlighting of C++ for read-only code, line by line, with the editor's grammar. */

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
