/** Scrollable box for content that may be wider than the screen; reachable by keyboard. */

import type { ComponentChildren } from "preact";

export function Wide({ label, kind, children }: { label: string; kind?: string; children: ComponentChildren }) {
  return (
    <div class={kind === undefined ? "scroll-x" : `scroll-x ${kind}`} tabIndex={0} role="group" aria-label={label}>
      {children}
    </div>
  );
}
