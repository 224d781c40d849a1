import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "e2e",
  outputDir: "../../target/board-e2e",
  // All tests share one board and two CPU cores, so parallel workers would only be slower.
  workers: 1,
  // Generous timeouts: they catch hangs, not slowness.
  timeout: 240_000,
  expect: { timeout: 60_000 },
  reporter: [["list"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1360, height: 860 },
    colorScheme: "light",
    screenshot: "only-on-failure",
    launchOptions: {
      // Debian's Chromium; Playwright's own would have to be downloaded.
      executablePath: process.env.REMORA_CHROMIUM ?? "/usr/bin/chromium",
      // Chromium cannot use its sandbox as root, the usual user in build containers.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    },
  },
});
