/** Keyboard shortcuts. Pages register what they can do; the list in the help dialog is the same table. */

import { signal } from "@preact/signals";

export interface Shortcut {
  /** As shown: `Ctrl+Enter`, `/`, `g p`. */
  keys: string;
  label: string;
  run: () => void;
}

export const shortcuts = signal<Shortcut[]>([]);

/** Offer shortcuts until the answer is called. */
export function offer(list: Shortcut[]): () => void {
  shortcuts.value = [...shortcuts.value, ...list];
  return () => {
    shortcuts.value = shortcuts.value.filter((shortcut) => !list.includes(shortcut));
  };
}

const CHORD_MS = 900;
let pending: { key: string; at: number } | null = null;

/** Listens before the editor does, which has meanings of its own for some keys. */
export function listen(): void {
  addEventListener(
    "keydown",
    (event) => {
      if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]") !== null) return;
      const found = match(event);
      if (found === null) return;
      event.preventDefault();
      event.stopPropagation();
      found.run();
    },
    { capture: true },
  );
}

function match(event: KeyboardEvent): Shortcut | null {
  const held = event.ctrlKey || event.metaKey;
  if (held) {
    const name = `Ctrl+${event.key === "Enter" ? "Enter" : event.key.toLowerCase()}`;
    return last(name);
  }
  if (event.altKey || writes(event)) return null;
  const now = Date.now();
  const before = pending !== null && now - pending.at < CHORD_MS ? pending.key : null;
  pending = { key: event.key, at: now };
  return (before === null ? null : last(`${before} ${event.key}`)) ?? last(event.key);
}

/** The page that came last wins. */
function last(keys: string): Shortcut | null {
  return shortcuts.value.filter((shortcut) => shortcut.keys === keys).at(-1) ?? null;
}

/** Whether the key would be written somewhere. */
function writes(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}
