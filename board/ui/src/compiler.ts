/** Parser for compiler output: finds the source lines that messages refer to. */

export type Severity = "error" | "warning" | "note";

export interface Diagnostic {
  line: number;
  column: number;
  severity: Severity;
  message: string;
}

/** A piece of compiler output: plain text, or text that names a location in the source. */
export interface Piece {
  text: string;
  line?: number;
  column?: number;
  severity?: Severity;
}

/** `name.hip:12:7: error: ...`, `<stdin>:12:7: warning: ...` and the like. */
const PLACE = /^([^\s:][^:\n]*):(\d+):(\d+):\s+(?:(fatal error|error|warning|note):\s*)?(.*)$/;

/** Whether a file is the user's source: toolchain headers have paths, the source has none. */
function own(file: string): boolean {
  return !file.includes("/");
}

export function diagnostics(output: string): Diagnostic[] {
  const found: Diagnostic[] = [];
  for (const text of output.split("\n")) {
    const match = PLACE.exec(text);
    if (match === null || !own(match[1] ?? "")) continue;
    const word = match[4] ?? "note";
    found.push({
      line: Number(match[2]),
      column: Number(match[3]),
      severity: word === "fatal error" ? "error" : (word as Severity),
      message: match[5] ?? "",
    });
  }
  return found;
}

/** Splits the output into lines and marks the source locations. */
export function pieces(output: string): Piece[][] {
  return output.split("\n").map((text) => {
    const match = PLACE.exec(text);
    if (match === null || !own(match[1] ?? "")) return [{ text }];
    const place = `${match[1]}:${match[2]}:${match[3]}:`;
    const word = match[4];
    const rest = text.slice(place.length);
    return [
      { text: place, line: Number(match[2]), column: Number(match[3]) },
      { text: rest, severity: word === undefined ? undefined : word === "fatal error" ? "error" : (word as Severity) },
    ];
  });
}
