// Makes the math font of the pages: the part of STIX Two Math that formulas use. The whole font is larger than all pages together.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import subset from "subset-font";

const WHOLE = "node_modules/@fontsource/stix-two-math/files/stix-two-math-latin-400-normal.woff2";
const FOLDER = "node_modules/.remora";

/** Letters of one character are italic in formulas: browsers map them to these code points. */
const ITALIC = [
  [0x1d434, 0x1d467],
  [0x1d6fc, 0x1d71b],
];

const range = ([first, last]) => Array.from({ length: last - first + 1 }, (_, index) => String.fromCodePoint(first + index));

const plain = readFileSync("build/math.txt", "utf8").replace(/\n/g, "");
const font = await subset(readFileSync(WHOLE), plain + ITALIC.flatMap(range).join(""), { targetFormat: "woff2" });
mkdirSync(FOLDER, { recursive: true });
writeFileSync(`${FOLDER}/math.woff2`, font);
