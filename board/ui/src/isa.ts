/** Tokens of disassembled instructions, and the mapping between instructions and source lines. */

import type { IsaLine, IsaListing } from "./contract";

export type Family = "vector" | "scalar" | "matrix" | "memory" | "local" | "wait" | "branch" | "label";

/** Returns the family of an instruction. */
export function family(text: string): Family {
  const name = text.trim().split(/\s+/)[0] ?? "";
  if (name.endsWith(":")) return "label";
  if (name.startsWith("v_mfma") || name.startsWith("v_smfma") || name.startsWith("v_wmma")) return "matrix";
  if (/^(global|flat|buffer|scratch|s_load|s_buffer|s_store|tbuffer|image)_?/.test(name)) return "memory";
  if (name.startsWith("ds_")) return "local";
  if (/^s_(waitcnt|barrier|nop|sleep|endpgm|sendmsg|setprio)/.test(name)) return "wait";
  if (/^s_(c?branch|setpc|swappc|getpc|call)/.test(name)) return "branch";
  if (name.startsWith("v_")) return "vector";
  return "scalar";
}

export interface Word {
  text: string;
  kind: "name" | "register" | "number" | "comment" | "plain";
}

const WORDS = /(\/\/.*|;.*$)|([vsa]\d+\b|[vsa]\[\d+:\d+\]|\b(?:vcc|exec|scc|m0|vcc_lo|vcc_hi|exec_lo|exec_hi)\b)|(0x[0-9a-fA-F]+|-?\b\d+(?:\.\d+)?\b)/g;

export function words(text: string): Word[] {
  const name = /^\s*\S+/.exec(text)?.[0] ?? "";
  const list: Word[] = name === "" ? [] : [{ text: name, kind: "name" }];
  const rest = text.slice(name.length);
  let at = 0;
  for (const match of rest.matchAll(WORDS)) {
    if (match.index > at) list.push({ text: rest.slice(at, match.index), kind: "plain" });
    const kind = match[1] !== undefined ? "comment" : match[2] !== undefined ? "register" : "number";
    list.push({ text: match[0], kind });
    at = match.index + match[0].length;
  }
  if (at < rest.length) list.push({ text: rest.slice(at), kind: "plain" });
  return list;
}

/** Counts the instructions of each source line, over all kernels. */
export function weights(kernels: IsaListing[]): Map<number, number> {
  const found = new Map<number, number>();
  for (const kernel of kernels) {
    for (const line of kernel.lines) {
      if (line.source_line !== undefined) found.set(line.source_line, (found.get(line.source_line) ?? 0) + 1);
    }
  }
  return found;
}

/** Counts the instructions of each family in a kernel. */
export function census(lines: IsaLine[]): [Family, number][] {
  const found = new Map<Family, number>();
  for (const line of lines) {
    const kind = family(line.text);
    if (kind !== "label") found.set(kind, (found.get(kind) ?? 0) + 1);
  }
  return [...found.entries()].sort((one, two) => two[1] - one[1]);
}

export function address(value: number): string {
  return value.toString(16).padStart(4, "0");
}
