import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LABELS } from "../e2e/labels";

const DOCS = "../../docs";
const FOLDER = join(DOCS, "board/pages");
const labels = Object.values(LABELS).flat();

test("the documentation shows every page, and no page that does not exist", () => {
  const sheets = readdirSync(FOLDER).map((name) => name.replace(/\.webp$/, ""));
  expect(sheets.sort()).toEqual([...labels].sort());
  const text = readFileSync(join(DOCS, "board-pages.md"), "utf8");
  const shown = [...text.matchAll(/!\[([^\]]+)\]\(board\/pages\/([\w-]+)\.webp\)/g)];
  expect(shown.map((match) => match[2]).sort()).toEqual([...labels].sort());
});

test("the pictures of the pages are small", () => {
  const sizes = labels.map((label) => statSync(join(FOLDER, `${label}.webp`)).size);
  expect(Math.max(...sizes)).toBeLessThan(150 * 1024);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(2 * 1024 * 1024);
});
