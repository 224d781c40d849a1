/** What may be wider than a phone scrolls in a box of its own, which the keyboard reaches too. */

import type { ComponentChildren } from "preact";

export function Wide({ label, kind, children }: { label: string; kind?: string; children: ComponentChildren }) {
  return (
    <div class={kind === undefined ? "scroll-x" : `scroll-x ${kind}`} tabIndex={0} role="group" aria-label={label}>
      {children}
    </div>
  );
}
