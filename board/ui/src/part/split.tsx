/** Two panes with a movable border, by pointer or arrow keys. The position is stored. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { stored } from "../stored";

interface Properties {
  name: string;
  label: string;
  direction: "across" | "down";
  first: ComponentChildren;
  second: ComponentChildren;
  start: number;
}

const LEAST = 0.2;
const MOST = 0.8;
const KEY_STEP = 0.03;

export function Split({ name, label, direction, first, second, start }: Properties) {
  const found = Number(stored.get(`split.${name}`));
  const share = useSignal(found >= LEAST && found <= MOST ? found : start);
  const box = useRef<HTMLDivElement>(null);
  const move = (value: number) => {
    share.value = Math.max(LEAST, Math.min(MOST, value));
    stored.set(`split.${name}`, share.value.toFixed(3));
  };
  const drag = (event: PointerEvent) => {
    const area = box.current?.getBoundingClientRect();
    if (area === undefined) return;
    move(direction === "across" ? (event.clientX - area.left) / area.width : (event.clientY - area.top) / area.height);
  };
  return (
    <div class={`split ${direction}`} ref={box} style={{ "--share": share.value } as Record<string, number>}>
      <div class="split-first">{first}</div>
      <div
        class="split-border"
        role="separator"
        tabIndex={0}
        aria-label={label}
        aria-orientation={direction === "across" ? "vertical" : "horizontal"}
        aria-valuenow={Math.round(share.value * 100)}
        aria-valuemin={LEAST * 100}
        aria-valuemax={MOST * 100}
        onPointerDown={(event) => {
          event.preventDefault();
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          if (event.currentTarget.hasPointerCapture(event.pointerId)) drag(event);
        }}
        onKeyDown={(event) => {
          const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
          if (step === undefined) return;
          event.preventDefault();
          move(share.value + step * KEY_STEP);
        }}
      />
      <div class="split-second">{second}</div>
    </div>
  );
}
