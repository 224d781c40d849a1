import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "e2e",
  outputDir: "../../target/board-e2e",
  // One board for all tests, and two processors: side by side would only be slower.
  workers: 1,
  // Generous: they are for what hangs, not for what is slow.
  timeout: 240_000,
  expect: { timeout: 60_000 },
  reporter: [["list"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1360, height: 860 },
    colorScheme: "light",
    screenshot: "only-on-failure",
    launchOptions: {
      // Debian's. Playwright's own would be a download.
      executablePath: process.env.REMORA_CHROMIUM ?? "/usr/bin/chromium",
      // Chromium refuses to sandbox itself for root, which is who builds in containers.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    },
  },
});
