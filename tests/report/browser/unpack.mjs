// Unpacks the Chromium that the package carries, and the libraries that it needs, to
// node_modules/chromium. Not by the package's own `executablePath`, which takes whatever lies in
// /tmp under that name.
import { createReadStream, createWriteStream, mkdirSync, renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";
import tar from "tar-fs";

const folder = fileURLToPath(new URL("node_modules", import.meta.url));
const carried = (name) => createReadStream(`${folder}/@sparticuz/chromium/bin/${name}.br`);

const part = `${folder}/chromium.part`;
rmSync(part, { recursive: true, force: true });
mkdirSync(part);
await pipeline(
  carried("chromium"),
  createBrotliDecompress(),
  createWriteStream(`${part}/chromium`, { mode: 0o755 }),
);
await pipeline(carried("al2023.tar"), createBrotliDecompress(), tar.extract(part));
rmSync(`${folder}/chromium`, { recursive: true, force: true });
renameSync(part, `${folder}/chromium`);
