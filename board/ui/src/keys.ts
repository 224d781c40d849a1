/** Keyboard shortcuts. Pages register theirs; the help dialog shows the same table. */

import { signal } from "@preact/signals";

export interface Shortcut {
  /** Keys in display form: `Ctrl+Enter`, `/`, `g p`. */
  keys: string;
  label: string;
  run: () => void;
}

export const shortcuts = signal<Shortcut[]>([]);

/** Registers shortcuts. The returned function unregisters them. */
export function offer(list: Shortcut[]): () => void {
  shortcuts.value = [...shortcuts.value, ...list];
  return () => {
    shortcuts.value = shortcuts.value.filter((shortcut) => !list.includes(shortcut));
  };
}

const CHORD_MS = 900;
let pending: { key: string; at: number } | null = null;

/** Listens in the capture phase, before the editor, which handles some of the keys itself. */
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

/** Returns the shortcut that was registered last for these keys. */
function last(keys: string): Shortcut | null {
  return shortcuts.value.filter((shortcut) => shortcut.keys === keys).at(-1) ?? null;
}

/** Whether the key event would type text. */
function writes(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}
