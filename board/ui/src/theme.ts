/** Dark and light theme: the system's setting, unless overridden by the switch. */

import { effect, signal } from "@preact/signals";
import { stored } from "./stored";

export type Theme = "system" | "light" | "dark";

const found = stored.get("theme");
export const theme = signal<Theme>(found === "light" || found === "dark" ? found : "system");

const system = matchMedia("(prefers-color-scheme: dark)");
export const systemDark = signal(system.matches);
system.addEventListener("change", (event) => {
  systemDark.value = event.matches;
});

export function isDark(): boolean {
  return theme.value === "system" ? systemDark.value : theme.value === "dark";
}

effect(() => {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
});

/** Switches between dark and light. A choice that equals the system's setting is stored as "system". */
export function toggle(): void {
  const dark = !isDark();
  theme.value = dark === systemDark.value ? "system" : dark ? "dark" : "light";
  if (theme.value === "system") stored.remove("theme");
  else stored.set("theme", theme.value);
}
