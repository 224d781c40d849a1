/** Every page is viewed at two widths and in both themes. */

import AxeBuilder from "@axe-core/playwright";
import { expect, fits, type Page, picture } from "./board";
import type { Label } from "./labels";

export type Width = "desktop" | "phone";

const WIDTHS = [
  ["desktop", 1360],
  ["phone", 390],
] as const;

const HEIGHT = 844;

/** The theme that axe checks at a width: each width and each theme once, because a check takes a second. */
const CHECKED = { desktop: "light", phone: "dark" } as const;

/** View a page in every width and theme. `open` shows it, once for each width. */
export async function view(page: Page, label: Label, open: (width: Width) => Promise<unknown>): Promise<void> {
  for (const [name, width] of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    await open(name);
    await expect(page.locator("h1").first()).toBeAttached();
    await expect(page.locator(".skeleton:visible")).toHaveCount(0);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await fits(page);
      if (colorScheme === CHECKED[name]) await readable(page, label);
      await picture(page, `${label}-${name}-${colorScheme}`, true);
    }
  }
}

/** Fails if a page breaks a rule of accessibility. */
async function readable(page: Page, label: Label): Promise<void> {
  // The pages have no frames, so axe does not need a second page to collect results from frames, which would double the time.
  const axe = new AxeBuilder({ page }).setLegacyMode(true).withTags(["wcag2a", "wcag2aa", "wcag21aa"]);
  const { violations } = await axe.analyze();
  const found = violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.target.join(" ")}`));
  expect(found, label).toEqual([]);
}
