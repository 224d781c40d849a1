/** The account of this browser's login or API key, or of a local board's only user; null without one. */

import { effect, signal } from "@preact/signals";
import { identity } from "./account";
import * as api from "./api";
import type { Me } from "./contract";

export const me = signal<Me | null>(null);

let latest = 0;

/** Loads the account again whenever the key or the login changes. */
export function listen(): void {
  effect(() => {
    void identity.value;
    latest += 1;
    const mine = latest;
    api
      .me()
      .catch(() => null)
      .then((found) => {
        if (mine === latest) me.value = found;
      });
  });
}
