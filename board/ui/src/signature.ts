/** Signature of a solution. */

/** Extracts the signature from the starter code. */
export function signature(starter: string | undefined): string | null {
  const found = /extern\s+"C"[^{;]*\)/.exec(starter ?? "");
  return found === null ? null : found[0].replace(/\s+/g, " ");
}
