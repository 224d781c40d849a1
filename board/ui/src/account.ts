/** Who this browser is to the server: the API key stored here, or a login, whose cookie scripts cannot see. A local board needs none. */

import { computed, signal } from "@preact/signals";
import { stored } from "./stored";

export const key = signal(stored.get("key") ?? "");

/** Changes when this browser logs in or out. */
const logins = signal(0);

/** Changes with the user that the server sees; pages load again then. */
export const identity = computed(() => `${logins.value} ${key.value}`);

/** Whether the API key dialog is open. */
export const asking = signal(false);

export function remember(value: string): void {
  key.value = value.trim();
  if (key.value === "") stored.remove("key");
  else stored.set("key", key.value);
}

/** Notes that this browser logged in or out. */
export function changed(): void {
  logins.value += 1;
}
