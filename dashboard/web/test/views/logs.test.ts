import { describe, expect, it } from "vitest";
import { filterLines, LEVELS, LineSplitter, levelOf, LogBuffer, logPath, logText, matcher, parseLine, plainText } from "../../src/views/logs/lines";

describe("log lines", () => {
  it("are plain text without terminal escapes", () => {
    expect(plainText("\u001b[31mred\u001b[0m\u0007 \u001b]0;title\u0007x\ty")).toBe("red x\ty");
    expect(plainText("no escapes")).toBe("no escapes");
  });

  it.each([
    ["E1116 12:00:00.1 main.go:1] failed", "error"],
    ["I1116 12:00:00.1 main.go:1] error budget", "info"],
    ['{"level":"warn","msg":"slow"}', "warning"],
    ["time=x level=debug msg=y", "debug"],
    ["2026/11/16 12:00:00 [error] 7#7: *1 open() failed", "error"],
    ["WARNING: low disk", "warning"],
    ["Traceback (most recent call last):", "error"],
    ["GET /errors 200", "none"],
    ["hello", "none"],
  ])("level of %s", (text, level) => {
    expect(levelOf(text)).toBe(level);
  });

  it("are split from bytes, also inside a character", () => {
    const splitter = new LineSplitter(10);
    const bytes = new TextEncoder().encode("a\r\n中文\nrest");
    expect([...splitter.push(bytes.subarray(0, 4)), ...splitter.push(bytes.subarray(4)), ...splitter.end()]).toEqual(["a", "中文", "rest"]);
    expect(splitter.push(new TextEncoder().encode("x".repeat(25)))).toEqual(["x".repeat(10), "x".repeat(10)]);
  });

  it("have a time and a text", () => {
    expect(parseLine("2026-11-16T12:00:00.5Z WARN hi", 2, 9)).toEqual({
      number: 9, source: 2, time: "2026-11-16T12:00:00.500000000Z", text: "WARN hi", level: "warning",
    });
  });
});

describe("log buffer", () => {
  it("merges sources by time and stays bounded", () => {
    const buffer = new LogBuffer(10);
    buffer.add(0, ["2026-01-01T00:00:01Z a", "2026-01-01T00:00:03Z c"]);
    buffer.add(1, ["2026-01-01T00:00:02Z b", "2026-01-01T00:00:04Z d"]);
    expect(buffer.lines.map((line) => line.text).join("")).toBe("abcd");
    buffer.add(0, Array.from({ length: 50 }, (_, index) => `2026-01-01T00:01:${String(index).padStart(2, "0")}Z ${index}`));
    expect(buffer.lines.length).toBe(10);
    expect(buffer.dropped).toBe(44);
    expect(buffer.lines.at(-1)?.text).toBe("49");
  });

  it("takes 100,000 lines quickly", () => {
    const buffer = new LogBuffer();
    const lines = Array.from({ length: 100_000 }, (_, index) => `2026-01-01T00:00:00.${String(index).padStart(9, "0")}Z line ${index}`);
    const start = performance.now();
    buffer.add(0, lines);
    expect(buffer.lines.length).toBeLessThanOrEqual(55_000);
    expect(performance.now() - start).toBeLessThan(5000);
  });

  it("is filtered by text, level and source, and downloaded", () => {
    const buffer = new LogBuffer();
    buffer.add(0, ["2026-01-01T00:00:01Z error one", "2026-01-01T00:00:02Z two"]);
    buffer.add(1, ["2026-01-01T00:00:03Z error three"]);
    const all = new Set(LEVELS);
    expect(filterLines(buffer.lines, { search: "", levels: all, sources: null })).toBe(buffer.lines);
    expect(filterLines(buffer.lines, { search: "ONE", levels: all, sources: null }).length).toBe(1);
    expect(filterLines(buffer.lines, { search: "", levels: new Set(["error"]), sources: new Set([1]) }).length).toBe(1);
    const sources = [{ namespace: "n", pod: "p", container: "c" }, { namespace: "n", pod: "q", container: "c" }];
    expect(logText(buffer.lines.slice(0, 1), sources, false)).toBe("[p/c] error one\n");
  });

  it("is searched with a regular expression between slashes", () => {
    expect(matcher("/a\\d+/")("xa12")).toBe(true);
    expect(matcher("/(/")("x/(/")).toBe(true);
    expect(matcher("/(/")("x")).toBe(false);
  });

  it("has the path of the API", () => {
    expect(logPath({ namespace: "n", pod: "p", container: "c" }, { follow: true, tailLines: 5 })).toBe(
      "/api/v1/namespaces/n/pods/p/log?container=c&timestamps=true&follow=true&tailLines=5",
    );
  });
});
