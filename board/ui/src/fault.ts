/** Finds the source line of a memory fault, which the worker reports as an offset in a kernel. */

import type { Diagnostic } from "./compiler";
import type { IsaListing } from "./contract";

export interface Fault {
  kernel: string;
  /** Offset of the instruction from the entry of the kernel. */
  offset: number;
  message: string;
}

/** Reads a fault from the details of a run-time error; null if there is none. */
export function fault(details: string): Fault | null {
  const found = /(memory access fault: \w+) of address \w+ in kernel (\S+) at pc \w+ \(entry \+0x([0-9a-f]+)/.exec(details);
  if (found === null) return null;
  const [, message = "", kernel = "", offset = ""] = found;
  return { kernel, offset: Number.parseInt(offset, 16), message };
}

/** Returns the mark of the line that the faulting instruction was compiled from; nothing if it is unknown. */
export function marks(fault: Fault, isa: IsaListing[]): Diagnostic[] {
  const listing = isa.find((one) => one.kernel === fault.kernel);
  const start = listing?.lines[0]?.address ?? 0;
  const line = listing?.lines.find((one) => one.address - start === fault.offset)?.source_line;
  return line == null ? [] : [{ line, column: 1, severity: "error", message: fault.message }];
}
