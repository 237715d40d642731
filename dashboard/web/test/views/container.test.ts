import { describe, expect, it } from "vitest";
import { formatBytes, joinPath, parentPath, parseListing, readTar, safeFilename, visibleName } from "../../src/views/files/listing";
import { decodeFrame, encodeClose, encodeFrame, encodeResize, execPath, parseExit } from "../../src/views/terminal/channels";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("exec channels", () => {
  it("carry the channel in the first byte", () => {
    expect([...encodeFrame(0, "ls")]).toEqual([0, 108, 115]);
    expect([...encodeClose(0)]).toEqual([255, 0]);
    const frame = decodeFrame(Uint8Array.of(1, 104, 105).buffer);
    expect(frame?.channel).toBe(1);
    expect(new TextDecoder().decode(frame?.data)).toBe("hi");
    expect(decodeFrame(new ArrayBuffer(0))).toBeNull();
    expect(new TextDecoder().decode(encodeResize(80, 24).subarray(1))).toBe('{"Width":80,"Height":24}');
  });

  it("end with a Status", () => {
    expect(parseExit(bytes('{"status":"Success"}'))).toEqual({ ok: true, exitCode: 0, message: "" });
    const failure = { status: "Failure", message: "command terminated", details: { causes: [{ reason: "ExitCode", message: "3" }] } };
    expect(parseExit(bytes(JSON.stringify(failure)))).toEqual({ ok: false, exitCode: 3, message: "command terminated" });
    expect(parseExit(bytes("boom"))).toEqual({ ok: false, exitCode: null, message: "boom" });
  });

  it("repeat the words of the command in the query", () => {
    const path = execPath({ namespace: "n", pod: "p", container: "c" }, ["ls", "a b"], {});
    expect(path).toBe("/api/v1/namespaces/n/pods/p/exec?container=c&stdout=true&stderr=true&command=ls&command=a+b");
  });
});

describe("listings", () => {
  it("keep hostile names whole", () => {
    const hostile = "a\n<img src=x onerror=alert(1)>";
    const output = bytes(
      `${hostile}\0-rw-r--r--    1 0 0   12 Jan  1 00:00 a\n\0\0\0` +
        "dir\0drwxr-xr-x 2 0 0 4096 Jan  1 00:00 dir\n\0\0d\0" +
        "link\0lrwxrwxrwx 1 0 0 3 Jan  1 00:00 link -> dir\n\0dir\n\0d\0",
    );
    const entries = parseListing(output);
    expect(entries.map((entry) => [entry.name, entry.type, entry.size, entry.target])).toEqual([
      ["dir", "directory", 4096, ""],
      ["link", "directory", 3, "dir"],
      [hostile, "file", 12, ""],
    ]);
    expect(visibleName(hostile)).toBe("a\\u000a<img src=x onerror=alert(1)>");
  });

  it.each([
    ["../../etc/passwd", "_.._etc_passwd"],
    ["CON.txt", "_CON.txt"],
    ["exe\u202etxt.gpj", "exe_txt.gpj"],
    ["...", "download"],
    ["report.txt", "report.txt"],
  ])("download name of %j", (name, safe) => {
    expect(safeFilename(name)).toBe(safe);
  });

  it("walk paths", () => {
    expect([joinPath("/", "a"), joinPath("/a", "b"), parentPath("/a/b"), parentPath("/a"), parentPath("/"), parentPath("data")]).toEqual(["/a", "/a/b", "/a", "/", "/", "data/.."]);
    expect([formatBytes(5), formatBytes(1536), formatBytes(500 << 20)]).toEqual(["5 B", "1.5 KiB", "500 MiB"]);
  });
});

function tarHeader(name: string, size: number, flag: string): Uint8Array {
  const block = new Uint8Array(512);
  block.set(bytes(name).subarray(0, 100), 0);
  block.set(bytes("0000644\0"), 100);
  block.set(bytes(size.toString(8).padStart(11, "0") + "\0"), 124);
  block.set(bytes("00000000001\0"), 136);
  block.set(bytes(flag), 156);
  block.set(bytes("ustar\0"), 257);
  return block;
}

function padded(text: string): Uint8Array {
  const data = bytes(text);
  const block = new Uint8Array(Math.ceil(data.length / 512) * 512);
  block.set(data);
  return block;
}

function concat(...parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    all.set(part, offset);
    offset += part.length;
  }
  return all;
}

describe("tar", () => {
  it("reads files, directories and long names", () => {
    const long = "d/".repeat(80) + "f";
    const pax = "22 path=中文/name.txt\n";
    const archive = concat(
      tarHeader("d/", 0, "5"),
      tarHeader("d/a.txt", 5, "0"), padded("hello"),
      tarHeader("././@LongLink", long.length, "L"), padded(long),
      tarHeader("cut", 1, "0"), padded("x"),
      tarHeader("pax", bytes(pax).length, "x"), padded(`${bytes(pax).length} path=中文/name.txt\n`),
      tarHeader("short", 0, "0"),
      new Uint8Array(1024),
    );
    const entries = readTar(archive);
    expect(entries.map((entry) => [entry.name, entry.type, entry.size])).toEqual([
      ["d/", "directory", 0],
      ["d/a.txt", "file", 5],
      [long, "file", 1],
      ["中文/name.txt", "file", 0],
    ]);
    expect(new TextDecoder().decode(entries[1]?.data)).toBe("hello");
    expect(readTar(archive.subarray(0, 1026)).length).toBe(1);
  });
});
