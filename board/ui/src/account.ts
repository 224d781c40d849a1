/** The API key stored in this browser. A local board needs none. */

import { signal } from "@preact/signals";
import { stored } from "./stored";

export const key = signal(stored.get("key") ?? "");

/** Whether the API key dialog is open. */
export const asking = signal(false);

export function remember(value: string): void {
  key.value = value.trim();
  if (key.value === "") stored.remove("key");
  else stored.set("key", key.value);
}
