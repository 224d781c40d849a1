/** Disassembly of a kernel: registers and occupancy, instruction mix, and source lines. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { IsaListing, KernelFacts } from "../contract";
import * as format from "../format";
import { address, census, family, words } from "../isa";

interface Properties {
  isa: IsaListing[];
  kernels: KernelFacts[];
  /** The source line whose instructions are highlighted. */
  chosen: number | null;
  choose: (line: number) => void;
}

export function Isa({ isa, kernels, chosen, choose }: Properties) {
  const at = useSignal(0);
  const list = useRef<HTMLDivElement>(null);
  const kernel = isa[Math.min(at.value, isa.length - 1)];
  useEffect(() => {
    const box = list.current;
    const first = box?.querySelector<HTMLElement>(".isa-line.lit");
    if (!box || !first) return;
    const top = first.offsetTop - box.offsetTop;
    if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - 40) box.scrollTop = Math.max(0, top - 60);
  }, [chosen, kernel]);
  if (kernel === undefined) return null;
  const facts = kernels.find((one) => one.name === kernel.kernel) ?? kernels[0];
  const start = kernel.lines[0]?.address ?? 0;
  const parts = census(kernel.lines);
  const total = parts.reduce((sum, [, count]) => sum + count, 0);
  const lit = chosen === null ? 0 : kernel.lines.filter((line) => line.source_line === chosen).length;
  return (
    <section class="isa" aria-label="Instructions">
      {isa.length > 1 && (
        <div class="segments" role="group" aria-label="Kernel">
          {isa.map((one, index) => (
            <button type="button" key={one.kernel} aria-pressed={index === at.value} onClick={() => (at.value = index)}>
              {one.kernel}
            </button>
          ))}
        </div>
      )}
      {facts && <Registers kernel={facts} />}
      <div class="census" role="img" aria-label={parts.map(([name, count]) => `${count} ${name}`).join(", ")}>
        {parts.map(([name, count]) => (
          <span key={name} class={`family-${name}`} style={{ flexGrow: count }} title={`${name}: ${count} of ${total}`} />
        ))}
      </div>
      <p class="small dim census-legend">
        {parts.map(([name, count]) => (
          <span key={name}>
            <i class={`family-${name}`} /> {name} {count}
          </span>
        ))}
        <span class="isa-hint">
          {chosen === null
            ? "Select a source line or an instruction."
            : `Line ${chosen}: ${lit} instruction${lit === 1 ? "" : "s"}`}
        </span>
      </p>
      <div class="isa-lines" ref={list} tabIndex={0} role="group" aria-label={`Instructions of ${kernel.kernel}`}>
        {kernel.lines.map((line, index) => {
          const from = line.source_line ?? null;
          const isLit = from !== null && from === chosen;
          const kind = family(line.text);
          return (
            <div
              key={index}
              class={`isa-line${isLit ? " lit" : ""}${kind === "label" ? " label" : ""}`}
              onClick={() => from !== null && choose(from)}
            >
              <span class="isa-address">{address(line.address - start)}</span>
              <span class="isa-from">
                {from !== null && (
                  <button
                    type="button"
                    aria-label={`From line ${from}`}
                    onClick={(event) => {
                      event.stopPropagation();
                      choose(from);
                    }}
                  >
                    {from}
                  </button>
                )}
              </span>
              <i class={`family-${kind}`} />
              <span class="isa-text">
                {words(line.text.trimStart()).map((word, place) => (
                  <span key={place} class={`word-${word.kind}`}>
                    {word.text}
                  </span>
                ))}
              </span>
            </div>
          );
        })}
      </div>
    </section>
  );
}

/** Most wavefronts per SIMD on these devices. */
const WAVES = 8;

export function Registers({ kernel }: { kernel: KernelFacts }) {
  return (
    <dl class="facts">
      <div>
        <dt>occupancy</dt>
        <dd>
          <span class="waves" aria-hidden="true">
            {Array.from({ length: WAVES }, (_, index) => (
              <i key={index} class={index + 0.5 <= kernel.waves_per_simd ? "on" : ""} />
            ))}
          </span>
          {format.waves(kernel.waves_per_simd)} <span class="dim">of {WAVES} waves per SIMD</span>
          {kernel.workgroups_per_cu > 0 && (
            <span class="dim" title="Only whole workgroups become resident on a compute unit.">
              {" "}
              ({kernel.workgroups_per_cu} {kernel.workgroups_per_cu === 1 ? "workgroup" : "workgroups"} of{" "}
              {kernel.workgroup} per CU)
            </span>
          )}
        </dd>
      </div>
      <div>
        <dt>VGPRs</dt>
        <dd>
          {kernel.vgprs}
          {kernel.agprs > 0 && <span class="dim"> + {kernel.agprs} AGPRs</span>}
        </dd>
      </div>
      <div>
        <dt>SGPRs</dt>
        <dd>{kernel.sgprs}</dd>
      </div>
      <div>
        <dt>LDS</dt>
        <dd>
          {format.bytes(kernel.lds_bytes)}
          {kernel.dynamic_lds_bytes > 0 && <span class="dim"> + {format.bytes(kernel.dynamic_lds_bytes)} dynamic</span>}
        </dd>
      </div>
      <div>
        <dt>scratch</dt>
        <dd class={kernel.scratch_bytes > 0 ? "bad" : ""}>
          {kernel.scratch_bytes > 0 ? `${format.bytes(kernel.scratch_bytes)}, spilled` : "none"}
        </dd>
      </div>
    </dl>
  );
}
