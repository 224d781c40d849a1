// Makes one picture per page for the documentation: desktop and phone, light and dark, side by side. The screenshots are those that the
// browser test leaves in target/board-screenshots.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "@playwright/test";

const FROM = "../../target/board-screenshots";
const TO = "../../docs/board/pages";
const LIMIT = 150 * 1024;
const LIMIT_OF_ALL = 2 * 1024 * 1024;

/** The columns of a sheet, and their widths in it. */
const COLUMNS = [
  ["desktop-light", 760],
  ["desktop-dark", 760],
  ["phone-light", 240],
  ["phone-dark", 240],
];
/** Longer pages are cut off. */
const MOST_HEIGHT = 900;
const GAP = 12;
const QUALITY = 0.72;

const labels = readdirSync(FROM).flatMap((name) => /^(.+)-desktop-light\.png$/.exec(name)?.[1] ?? []);
if (labels.length === 0) throw new Error(`${FROM} has no screenshots: cargo xtask test makes them`);
rmSync(TO, { recursive: true, force: true });
mkdirSync(TO, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.REMORA_CHROMIUM ?? "/usr/bin/chromium",
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});
const page = await browser.newPage();
let total = 0;
for (const label of labels.sort()) {
  const pictures = COLUMNS.map(([view, width]) => {
    const path = join(FROM, `${label}-${view}.png`);
    if (!existsSync(path)) throw new Error(`${path} is missing: run the browser test again`);
    return { url: `data:image/png;base64,${readFileSync(path, "base64")}`, width };
  });
  const data = await page.evaluate(drawn, { pictures, most: MOST_HEIGHT, gap: GAP, quality: QUALITY });
  const bytes = Buffer.from(data.split(",")[1], "base64");
  if (bytes.length > LIMIT) throw new Error(`${label}.webp has ${bytes.length} bytes, more than ${LIMIT}`);
  writeFileSync(join(TO, `${label}.webp`), bytes);
  total += bytes.length;
}
await browser.close();
console.log(`${labels.length} sheets in docs/board/pages, ${Math.round(total / 1024)} KiB in all`);
if (total > LIMIT_OF_ALL) throw new Error(`the sheets have ${total} bytes in all, more than ${LIMIT_OF_ALL}`);

/** Runs in the browser: draws the pictures side by side, and encodes them as WebP. */
async function drawn({ pictures, most, gap, quality }) {
  const columns = await Promise.all(
    pictures.map(async ({ url, width }) => {
      const image = new Image();
      image.src = url;
      await image.decode();
      const scale = width / image.width;
      return { image, width, height: Math.min(most, Math.round(image.height * scale)), scale };
    }),
  );
  const canvas = document.createElement("canvas");
  canvas.width = columns.reduce((sum, column) => sum + column.width + gap, gap);
  canvas.height = Math.max(...columns.map((column) => column.height)) + 2 * gap;
  const context = canvas.getContext("2d");
  context.fillStyle = "#8a8f98";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  let x = gap;
  for (const { image, width, height, scale } of columns) {
    context.drawImage(image, 0, 0, image.width, height / scale, x, gap, width, height);
    x += width + gap;
  }
  return canvas.toDataURL("image/webp", quality);
}
