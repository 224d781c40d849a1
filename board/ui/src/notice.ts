/** Short notices in the corner of the page. */

import { signal } from "@preact/signals";
import { Refusal } from "./api";
import { sentence } from "./format";

export interface Notice {
  id: number;
  text: string;
  bad: boolean;
  action?: { label: string; run: () => void };
}

const SHOWN_MS = 7000;

export const notices = signal<Notice[]>([]);
let last = 0;

export function tell(text: string, more: { bad?: boolean; action?: Notice["action"] } = {}): void {
  last += 1;
  const id = last;
  notices.value = [...notices.value, { id, text, bad: more.bad ?? false, action: more.action }];
  setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Tells why the server refused something. */
export function refused(cause: unknown): void {
  const parts = cause instanceof Refusal ? [cause.message, cause.details] : [cause instanceof Error ? cause.message : String(cause)];
  const sentences = parts.filter((part) => part !== "").map((part) => sentence(part).replace(/\.$/, ""));
  tell(`${sentences.join(". ")}.`, { bad: true });
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}
