/** Client-side routing: the address as signals, and links that do not reload. */

import { computed, signal } from "@preact/signals";
import { parse, type Route } from "./routes";

export type { Route };

const address = signal({ path: location.pathname, search: location.search });

export const route = computed<Route>(() => parse(address.value.path));
export const path = computed(() => address.value.path);
export const parameters = computed(() => new URLSearchParams(address.value.search));

export function parameter(name: string): string {
  return parameters.value.get(name) ?? "";
}

function read(): void {
  address.value = { path: location.pathname, search: location.search };
}

export function navigate(to: string): void {
  history.pushState(null, "", to);
  read();
  scrollTo(0, 0);
  // Moves the focus to the new heading, so that screen readers announce the page.
  requestAnimationFrame(() => document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true }));
}

/** Goes to a page in place of the current one, which is then not in the history. */
export function replace(to: string): void {
  history.replaceState(null, "", to);
  read();
}

/** Changes parameters of the address without a history entry. */
export function amend(values: Record<string, string>): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === "") next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  history.replaceState(null, "", location.pathname + (text === "" ? "" : `?${text}`));
  read();
}

/** Intercepts clicks on internal links. */
export function listen(): void {
  addEventListener("popstate", read);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target !== "" || link.hasAttribute("download") || link.origin !== location.origin) return;
    // Not pages of the application: the server answers these itself.
    if (/^\/(api|embed)\//.test(link.pathname)) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}
