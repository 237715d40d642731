import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const OUTPUT = new URL("../../src/sampan/dashboard/static", import.meta.url).pathname;
const SMALLEST_COMPRESSED_BYTES = 512;

/** Writes `.gz` and `.br` beside each file, so that the server compresses nothing. */
function precompress(): Plugin {
  return {
    name: "precompress",
    apply: "build",
    closeBundle() {
      for (const entry of readdirSync(OUTPUT, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || /\.(gz|br)$/.test(entry.name)) continue;
        const path = join(entry.parentPath, entry.name);
        const content = readFileSync(path);
        if (content.length < SMALLEST_COMPRESSED_BYTES) continue;
        writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
        writeFileSync(`${path}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
      }
    },
  };
}

export default defineConfig({
  base: "/ui/",
  plugins: [precompress()],
  build: {
    outDir: OUTPUT,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // The content security policy allows no data: URL but images.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  server: {
    proxy: { "/ui/api": { target: process.env["SAMPAN_DASHBOARD"] ?? "http://127.0.0.1:8001", ws: true, secure: false } },
  },
  test: { include: ["test/**/*.test.ts"], setupFiles: ["test/setup.ts"] },
} as Parameters<typeof defineConfig>[0]);
