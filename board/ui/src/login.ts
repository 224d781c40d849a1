/** Log-in through a provider, and log-out. */

import { signal } from "@preact/signals";
import { changed, remember } from "./account";
import * as api from "./api";
import type { LoginProvider } from "./contract";
import { sentence } from "./format";
import { tell } from "./notice";

/** The server's login providers. */
export const providers = signal<LoginProvider[]>([]);

/** Loads the providers. */
export function listen(): void {
  api
    .loginOptions()
    .then((options) => {
      providers.value = options.providers;
    })
    .catch(() => {
      // Without the list the pages offer API keys alone.
    });
}

/** Leaves for the provider's login page. */
export async function begin(provider: string, returnTo: string, link = false): Promise<void> {
  try {
    const { url } = await api.loginStart(provider, returnTo, link);
    location.assign(url);
  } catch (cause) {
    const details = cause instanceof api.Refusal && cause.details !== "" ? ` (${cause.details})` : "";
    tell(sentence((cause as Error).message) + details, { bad: true });
  }
}

/** Logs this browser, or all browsers of the user, out. */
export async function logOut(everywhere = false): Promise<void> {
  try {
    await api.logout(everywhere);
    remember("");
    changed();
    tell(everywhere ? "You are logged out in all browsers." : "You are logged out.");
  } catch (cause) {
    tell(sentence((cause as Error).message), { bad: true });
  }
}
