// The last step of the build: what a browser that opens every page downloads, compressed, must stay under the limit.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const LIMIT = 350 * 1024;

/** Already compressed: they travel as they are. */
const COMPRESSED = /\.(woff2|png|webp)$/;

const files = readdirSync("dist", { withFileTypes: true, recursive: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
const weighed = files.map((name) => {
  const bytes = readFileSync(name);
  return { name, size: COMPRESSED.test(name) ? bytes.length : gzipSync(bytes, { level: 9 }).length };
});
const total = weighed.reduce((sum, { size }) => sum + size, 0);
for (const { name, size } of weighed.sort((one, two) => two.size - one.size)) {
  console.log(`${(size / 1024).toFixed(1).padStart(7)} KiB  ${name}`);
}
console.log(`${(total / 1024).toFixed(1).padStart(7)} KiB  in all, compressed (limit ${LIMIT / 1024} KiB)`);
if (total > LIMIT) {
  console.error("the pages are too heavy");
  process.exit(1);
}
