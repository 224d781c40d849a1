/** The API key of this browser. A board on one's own machine needs none. */

import { signal } from "@preact/signals";
import { stored } from "./stored";

export const key = signal(stored.get("key") ?? "");

/** Whether the dialog that asks for the key is open. */
export const asking = signal(false);

export function remember(value: string): void {
  key.value = value.trim();
  if (key.value === "") stored.remove("key");
  else stored.set("key", key.value);
}
