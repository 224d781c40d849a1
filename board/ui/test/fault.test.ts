import { describe, expect, it } from "vitest";
import { fault, marks } from "../src/fault";

describe("a memory fault", () => {
  const details =
    "hipDeviceSynchronize: hipErrorIllegalAddress (700)\nremora: hipModuleLaunchKernel failed on the worker: memory access fault: write of " +
    "address 0x200017d82400 in kernel solution at pc 0x200000001740 (entry +0x40, `global_store_dword v[0:1], v2, off`), workgroup (0, 0, 0)";
  const isa = [
    { kernel: "other", lines: [{ address: 0x40, text: "s_nop", source_line: 1 }] },
    {
      kernel: "solution",
      lines: [
        { address: 0x1700, text: "s_load_dwordx2", source_line: 2 },
        { address: 0x1740, text: "global_store_dword", source_line: 4 },
        { address: 0x1748, text: "s_endpgm" },
      ],
    },
  ];

  it("is found in the details of a run-time error", () => {
    expect(fault(details)).toEqual({ kernel: "solution", offset: 0x40, message: "memory access fault: write" });
    expect(fault("Segmentation fault")).toBeNull();
  });

  it("marks the line of its instruction, relative to the entry of its kernel", () => {
    const found = fault(details)!;
    expect(marks(found, isa)).toEqual([{ line: 4, column: 1, severity: "error", message: "memory access fault: write" }]);
    expect(marks({ ...found, offset: 0x48 }, isa)).toEqual([]);
    expect(marks({ ...found, kernel: "missing" }, isa)).toEqual([]);
  });
});
