/** A board of its own for the tests: `remora serve` on a free port with an empty database, ended when they are done. */

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { test as base, expect, type Page } from "@playwright/test";

const START_MS = 60_000;

/** Seconds that a case may run. The tests' own kernels take milliseconds; the endless one takes all of it. */
const CASE_SECONDS = "15";

/** Where set-up unpacks what kernels are compiled with, however cargo was called. */
const TOOLCHAIN = resolve("../../target/toolchain");

export interface Board {
  url: string;
  /** Folder of its database. */
  data: string;
}

/** Path of the program under test. */
export function program(): string {
  const path = process.env.REMORA;
  if (path === undefined) throw new Error("REMORA names no program: cargo xtask test sets it");
  return path;
}

/** Run a board with an empty database as long as it is used. */
export async function serve(options: (data: string) => string[], use: (board: Board) => Promise<void>): Promise<void> {
  const data = mkdtempSync(join(tmpdir(), "remora-board-"));
  const child = spawn(
    program(),
    ["serve", "--ready", "--listen", "127.0.0.1:0", "--data", data, "--case-seconds", CASE_SECONDS, ...options(data)],
    { stdio: ["ignore", "pipe", "inherit"], env: { REMORA_TOOLCHAIN: TOOLCHAIN, ...process.env, XDG_CACHE_HOME: join(data, "cache") } },
  );
  try {
    await use({ url: await announced(child), data });
  } finally {
    await ended(child);
    rmSync(data, { recursive: true, force: true });
  }
}

export const test = base.extend<{ errors: string[] }, { board: Board }>({
  board: [
    // Two devices, so that a source can be submitted to several.
    async ({}, use) => serve(() => ["--device", "mi300x", "--device", "mi210"], use),
    { scope: "worker", timeout: START_MS + 30_000 },
  ],
  baseURL: async ({ board }, use) => use(board.url),
  // Any browser error, in particular a violation of the content security policy, fails the current test.
  errors: [
    async ({ page }, use) => {
      const errors: string[] = [];
      page.on("pageerror", (error) => errors.push(error.message));
      page.on("console", (message) => {
        const text = message.text();
        const expected = text.startsWith("Failed to load resource") || text.includes("Content Security Policy");
        if (message.type() === "error" && !expected) errors.push(text);
      });
      await page.exposeFunction("policyRefused", (what: string) => errors.push(what));
      await page.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) => {
          // When text is typed over a selection, the browser tries to add inline styles, which the policy blocks and the editor ignores.
          const path = event.composedPath();
          if (path.some((node) => node instanceof HTMLElement && node.isContentEditable)) return;
          const refused = `${event.violatedDirective} refused ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`;
          (window as unknown as { policyRefused: (what: string) => void }).policyRefused(refused);
        });
      });
      await use(errors);
      expect(errors).toEqual([]);
    },
    { auto: true },
  ],
});

/** Wait for the address that a server prints. */
export function announced(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${child.spawnfile} did not come up`)), START_MS);
    child.once("exit", (code) => reject(new Error(`${child.spawnfile} ended with ${code}`)));
    if (child.stdout === null) throw new Error(`${child.spawnfile} has no standard output`);
    createInterface({ input: child.stdout }).on("line", (line) => {
      const url = /^listening on (http:\S+)/.exec(line)?.[1];
      if (url === undefined) return;
      clearTimeout(timer);
      resolve(url);
    });
  });
}

/** End a server. */
export function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", () => resolve());
    child.kill("SIGTERM");
  });
}

/** Where the starter code leaves room. */
const ROOM = "{\n    \n}";

/** Paste the starter code with a body over what is in the editor. */
export async function paste(page: Page, body: string): Promise<void> {
  const answer = await page.request.get("/api/problems/leaky-relu");
  const { starters } = (await answer.json()) as { starters: Record<string, { kernel: string }> };
  const starter = starters.float32?.kernel ?? "";
  expect(starter).toContain(ROOM);
  await put(page, starter.replace(ROOM, `{\n${body}\n}`));
}

/** Paste a source over what is in the editor. */
export async function put(page: Page, code: string): Promise<void> {
  const content = page.locator(".cm-content");
  await content.click();
  await page.keyboard.press("ControlOrMeta+a");
  await content.evaluate((element, text) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, code);
  await expect.poll(() => written(page)).toBe(code);
}

/** Type a body key by key into the starter code. The editor indents by itself. */
export async function type(page: Page, body: string): Promise<void> {
  await page.locator(".cm-line").nth(-3).click();
  await page.keyboard.type(body.trim().replace(/\n\s*/g, "\n"));
  await expect.poll(() => written(page)).toContain(`{\n${body}\n}`);
}

async function written(page: Page): Promise<string> {
  return (await page.locator(".cm-line").allInnerTexts()).map((line) => line.replace(/\n$/, "")).join("\n");
}

/** A picture for people to look at. Hiding the caret would need a style element, which the policy of the pages refuses. */
export async function picture(page: Page, name: string, fullPage = false): Promise<void> {
  if (fullPage) await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: `../../target/board-screenshots/${name}.png`, fullPage, caret: "initial" });
}

/** Nothing may be wider than the window. */
export async function fits(page: Page): Promise<void> {
  const beyond = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(beyond).toBeLessThanOrEqual(0);
}

export { expect, type Page };
