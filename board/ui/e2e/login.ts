/** A board with a login provider for the tests: a real one, in a process of its own on this machine. */

import { execFileSync, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { announced, type Board, test as base, ended, expect, program, serve } from "./board";

const CLIENT = "board";
const SECRET = "the secret of the tests' client";

export interface Provider {
  /** Its address. */
  issuer: string;
}

interface Site {
  provider: Provider;
  board: Board;
}

export const test = base.extend<{ local: undefined }, { site: Site }>({
  site: [
    async ({}, use) => {
      const child = spawn(process.execPath, ["e2e/provider.mjs", CLIENT, SECRET], { stdio: ["pipe", "pipe", "inherit"] });
      try {
        const issuer = await announced(child);
        const options = (data: string) => {
          writeFileSync(join(data, "client.secret"), SECRET, { mode: 0o600 });
          const file = join(data, "login.toml");
          const lines = ['name = "Test ID"', `issuer = "${issuer}"`, `client-id = "${CLIENT}"`, 'client-secret-file = "client.secret"'];
          writeFileSync(file, `[provider.test]\n${lines.join("\n")}\n`);
          return ["--login", file];
        };
        await serve(options, async (board) => {
          const ready = new Promise((resolve) => child.stdout.once("data", resolve));
          child.stdin.write(`${board.url}/login/callback/test\n`);
          await ready;
          await use({ provider: { issuer }, board });
        });
      } finally {
        await ended(child);
      }
    },
    { scope: "worker", timeout: 120_000 },
  ],
  baseURL: async ({ site }, use) => use(site.board.url),
  // The provider's own pages name a font of another host.
  local: [
    async ({ context }, use) => {
      await context.route(
        (url) => !["127.0.0.1", "localhost"].includes(url.hostname),
        (route) => route.abort(),
      );
      await use(undefined);
    },
    { auto: true },
  ],
});

/** Log in at the provider's page, and agree to what the board asks for. */
export async function atProvider(page: Page, name: string): Promise<void> {
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  await expect(page.getByText("Authorize")).toBeVisible();
  await page.locator("button[type=submit]").click();
}

/** A whole login. */
export async function logIn(page: Page, name: string): Promise<void> {
  await page.goto("/login");
  await page.getByRole("button", { name: "Log in with Test ID" }).click();
  await atProvider(page, name);
  await expect(page.locator(".bar .user-name")).toHaveText(name);
}

/** The link that the administrator's command prints. */
export function loginLink(board: Board, name: string): string {
  const add = ["board", "user", "add", name, "--data", board.data];
  execFileSync(program(), add, { stdio: "pipe" });
  const link = ["board", "login-link", name, "--url", board.url, "--data", board.data];
  return execFileSync(program(), link, { encoding: "utf8" }).trim();
}

export { expect };
