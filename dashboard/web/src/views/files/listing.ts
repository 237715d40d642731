/** Files of a container: listings from `ls` in a form that any busybox has, and archives from `tar`. */

export type FileType = "directory" | "file" | "link" | "other";

export interface FileEntry {
  readonly name: string;
  readonly type: FileType;
  readonly size: number;
  readonly mode: string;
  readonly owner: string;
  readonly modified: string;
  readonly target: string;
}

/**
 * Lists a directory with names apart by zero bytes: a name may contain line ends. For each entry the shell prints the
 * line of `ls -ld` for the file and then the name. The directory is an argument, never part of the script.
 */
export const LIST_COMMAND: readonly string[] = [
  "sh",
  "-c",
  'cd -- "$1" || exit 1; n=0; for f in .* *; do case "$f" in .|..) continue;; esac; [ -e "$f" ] || [ -L "$f" ] || continue; ' +
    'n=$((n+1)); [ $n -gt 2000 ] && break; ' +
    'printf "%s\\000" "$f"; LC_ALL=C ls -lnd -- "$f" 2>/dev/null | head -n 1; printf "\\000"; ' +
    '[ -L "$f" ] && readlink -- "$f"; printf "\\000"; [ -d "$f" ] && printf d; printf "\\000"; done',
  "sh",
];

export function listCommand(directory: string): string[] {
  return [...LIST_COMMAND, directory];
}

const LS = /^(\S{10})\S*\s+\d+\s+(\S+)\s+(\S+)\s+(\d+)(?:,\s*\d+)?\s+(\w{3}\s+\d+\s+[\d:]+|\d{4}-\d\d-\d\d\s+[\d:]+)/;

export function parseListing(output: Uint8Array): FileEntry[] {
  const parts = new TextDecoder().decode(output).split("\0");
  const entries: FileEntry[] = [];
  for (let index = 0; index + 3 < parts.length; index += 4) {
    const [name = "", line = "", target = "", directory = ""] = parts.slice(index, index + 4);
    const match = LS.exec(line);
    const mode = match?.[1] ?? "";
    entries.push({
      name,
      type: fileType(mode, directory === "d"),
      size: Number(match?.[4] ?? 0),
      mode,
      owner: match ? `${match[2]}:${match[3]}` : "",
      modified: (match?.[5] ?? "").replace(/\s+/g, " "),
      target: target.replace(/\n$/, ""),
    });
  }
  return entries.sort((a, b) => Number(b.type === "directory") - Number(a.type === "directory") || compareNames(a.name, b.name));
}

function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function fileType(mode: string, isDirectory: boolean): FileType {
  if (mode.startsWith("d") || (mode.startsWith("l") && isDirectory)) return "directory";
  if (mode.startsWith("l")) return "link";
  return mode.startsWith("-") ? "file" : "other";
}

export function joinPath(directory: string, name: string): string {
  return `${directory === "/" ? "" : directory.replace(/\/+$/, "")}/${name}`;
}

export function parentPath(path: string): string {
  const trimmed = path.replace(/\/+$/, "");
  if (!path.startsWith("/")) return `${trimmed}/..`; // Below the working directory, whose name is not known.
  return trimmed.slice(0, trimmed.lastIndexOf("/")) || "/";
}

/** Bidirectional controls and characters that a display or a file system may read in another way. */
// eslint-disable-next-line no-control-regex
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\\/:*?"<>|%]/g;

/** A name under which a browser may store a download, whatever the container calls the file. */
export function safeFilename(name: string): string {
  const cleaned = name.replace(UNSAFE, "_").replace(/^[.\s]+|[.\s]+$/g, "").slice(0, 120);
  const reserved = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(cleaned);
  return (reserved ? `_${cleaned}` : cleaned) || "download";
}

/** How a hostile name is shown: control characters and direction marks become visible. */
export function visibleName(name: string): string {
  return name.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (character) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export interface TarEntry {
  readonly name: string;
  readonly size: number;
  readonly type: FileType;
  readonly mode: number;
  readonly modified: number;
  readonly data: Uint8Array;
}

const BLOCK = 512;

function field(block: Uint8Array, start: number, length: number): string {
  const bytes = block.subarray(start, start + length);
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}

function octal(block: Uint8Array, start: number, length: number): number {
  if (block[start]! & 0x80) {
    let value = block[start]! & 0x7f;
    for (let index = 1; index < length; index += 1) value = value * 256 + block[start + index]!;
    return value;
  }
  return Number.parseInt(field(block, start, length).trim() || "0", 8) || 0;
}

const TYPES: Readonly<Record<string, FileType>> = { "0": "file", "\0": "file", "": "file", "5": "directory", "1": "link", "2": "link" };

/** Reads the entries of a tar archive (ustar, with GNU long names and pax paths). A cut archive ends with its last whole entry. */
export function readTar(archive: Uint8Array): TarEntry[] {
  const entries: TarEntry[] = [];
  let longName = "";
  for (let offset = 0; offset + BLOCK <= archive.length; ) {
    const header = archive.subarray(offset, offset + BLOCK);
    if (header.every((byte) => byte === 0)) break;
    const size = octal(header, 124, 12);
    const data = archive.subarray(offset + BLOCK, offset + BLOCK + size);
    if (data.length < size) break;
    offset += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    const flag = field(header, 156, 1);
    if (flag === "L") {
      longName = new TextDecoder().decode(data).replace(/\0.*$/s, "");
      continue;
    }
    if (flag === "x") {
      longName = paxPath(data) || longName;
      continue;
    }
    if (flag === "g" || flag === "K") continue;
    const prefix = field(header, 257, 5) === "ustar" ? field(header, 345, 155) : "";
    const name = longName || (prefix ? `${prefix}/` : "") + field(header, 0, 100);
    longName = "";
    entries.push({ name, size, type: TYPES[flag] ?? "other", mode: octal(header, 100, 8), modified: octal(header, 136, 12), data });
  }
  return entries;
}

/** Reads `path` of a pax header: records of "length key=value", whose length counts bytes. */
function paxPath(data: Uint8Array): string {
  const decoder = new TextDecoder();
  for (let offset = 0; offset < data.length; ) {
    const space = data.indexOf(0x20, offset);
    const length = Number(decoder.decode(data.subarray(offset, space)));
    if (space < 0 || !(length > 0)) return "";
    const record = decoder.decode(data.subarray(space + 1, offset + length - 1));
    if (record.startsWith("path=")) return record.slice(5);
    offset += length;
  }
  return "";
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
