/** Log lines of several containers: how a line is read, and how they are merged by time in bounded memory. */

export type Level = "error" | "warning" | "info" | "debug" | "none";
export const LEVELS: readonly Level[] = ["error", "warning", "info", "debug", "none"];

export interface LogSource {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

export interface LogLine {
  /** Grows by one with each line that was received. */
  readonly number: number;
  readonly source: number;
  /** RFC 3339 with nanoseconds, as the kubelet writes it: sorts as text. */
  readonly time: string;
  readonly text: string;
  readonly level: Level;
}

const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** The text without terminal escapes and control characters. */
export function plainText(text: string): string {
  if (!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(text)) return text;
  return text.replace(ESCAPES, "").replace(CONTROLS, "");
}

const NAMES: Readonly<Record<string, Level>> = {
  e: "error", f: "error", error: "error", err: "error", fatal: "error", panic: "error", critical: "error", crit: "error",
  emerg: "error", alert: "error", severe: "error",
  w: "warning", warn: "warning", warning: "warning",
  i: "info", info: "info", notice: "info",
  d: "debug", debug: "debug", trace: "debug", verbose: "debug",
};

const KLOG = /^([IWEF])\d{4} \d\d:\d\d:\d\d/;
const KEYED = /(?:^|[\s,{])"?(?:level|lvl|severity|levelname)"?\s*[=:]\s*"?([a-zA-Z]+)/i;
const WORD = /(?:^|[\s[(<|:])(error|err|fatal|panic|critical|crit|emerg|alert|severe|warn|warning|info|notice|debug|trace)(?=$|[\s\])>|:,])/i;
const TRACEBACK = /^(?:Traceback \(most recent call last\)|panic:|goroutine \d+ \[|Exception in thread|\w+(?:\.\w+)*(?:Error|Exception): )/;

/** Guesses the level: klog's first letter, a level field of JSON or logfmt, or a level word near the start. */
export function levelOf(text: string): Level {
  const klog = KLOG.exec(text);
  if (klog) return NAMES[klog[1]!.toLowerCase()] ?? "none";
  const head = text.length > 300 ? text.slice(0, 300) : text;
  const keyed = KEYED.exec(head);
  if (keyed) return NAMES[keyed[1]!.toLowerCase()] ?? "none";
  if (TRACEBACK.test(head)) return "error";
  const word = WORD.exec(head.slice(0, 80));
  return word ? (NAMES[word[1]!.toLowerCase()] ?? "none") : "none";
}

const TIMESTAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?/;

/** Reads a line that the server wrote with `timestamps=true`. */
export function parseLine(raw: string, source: number, number: number): LogLine {
  const match = TIMESTAMP.exec(raw);
  const text = plainText(match ? raw.slice(match[0].length) : raw);
  return { number, source, time: match ? sortableTime(match[1]!) : "", text, level: levelOf(text) };
}

/** Pads the fraction to nanoseconds, so that times of one zone compare as text. */
export function sortableTime(time: string): string {
  const match = /^(.{19})(?:\.(\d+))?(.*)$/.exec(time);
  if (!match) return time;
  return `${match[1]}.${(match[2] ?? "").padEnd(9, "0").slice(0, 9)}${match[3]}`;
}

/** Cuts a stream of bytes into lines; an overlong line is cut into pieces. */
export class LineSplitter {
  private readonly decoder = new TextDecoder();
  private rest = "";

  constructor(private readonly longest = 32_768) {}

  push(bytes: Uint8Array): string[] {
    const parts = (this.rest + this.decoder.decode(bytes, { stream: true })).split("\n");
    this.rest = parts.pop() ?? "";
    while (this.rest.length > this.longest) {
      parts.push(this.rest.slice(0, this.longest));
      this.rest = this.rest.slice(this.longest);
    }
    return parts.map((part) => (part.endsWith("\r") ? part.slice(0, -1) : part));
  }

  end(): string[] {
    const last = this.rest + this.decoder.decode();
    this.rest = "";
    return last ? [last] : [];
  }
}

export const MOST_LINES = 50_000;

/**
 * The newest lines of all sources in the order of their times. A late line is put where it belongs among the newest
 * ones: streams of different nodes arrive out of step. When the buffer is full the oldest lines go.
 */
export class LogBuffer {
  lines: LogLine[] = [];
  dropped = 0;
  private number = 0;

  constructor(private readonly most = MOST_LINES) {}

  add(source: number, texts: readonly string[]): void {
    for (const text of texts) this.insert(parseLine(text, source, (this.number += 1)));
    // Dropping a tenth at a time keeps the cost of a line constant.
    if (this.lines.length > this.most * 1.1) {
      const excess = this.lines.length - this.most;
      this.lines = this.lines.slice(excess);
      this.dropped += excess;
    }
  }

  clear(): void {
    this.lines = [];
    this.dropped = 0;
  }

  private insert(line: LogLine): void {
    const { lines } = this;
    const last = lines[lines.length - 1];
    if (!last || !line.time || last.time <= line.time) {
      lines.push(line);
      return;
    }
    let low = 0;
    let high = lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lines[middle]!.time <= line.time) low = middle + 1;
      else high = middle;
    }
    lines.splice(low, 0, line);
  }
}

export interface LogFilter {
  readonly search: string;
  readonly levels: ReadonlySet<Level>;
  readonly sources: ReadonlySet<number> | null;
}

/** A text search, or a regular expression between slashes: `/time=\d+/`. An invalid expression is searched as text. */
export function matcher(search: string): (text: string) => boolean {
  if (!search) return () => true;
  const expression = /^\/(.+)\/(i?)$/.exec(search);
  if (expression) {
    try {
      const pattern = new RegExp(expression[1]!, expression[2]);
      return (text) => pattern.test(text);
    } catch {
      // Searched as text below.
    }
  }
  const lower = search.toLowerCase();
  return (text) => text.toLowerCase().includes(lower);
}

export function filterLines(lines: readonly LogLine[], filter: LogFilter): readonly LogLine[] {
  const all = !filter.search && filter.levels.size === LEVELS.length && !filter.sources;
  if (all) return lines;
  const matches = matcher(filter.search);
  return lines.filter(
    (line) => filter.levels.has(line.level) && (!filter.sources || filter.sources.has(line.source)) && matches(line.text),
  );
}

export function logText(lines: readonly LogLine[], sources: readonly LogSource[], withTimes: boolean): string {
  const several = sources.length > 1;
  return lines
    .map((line) => {
      const source = sources[line.source];
      const prefix = several && source ? `[${source.pod}/${source.container}] ` : "";
      return `${withTimes && line.time ? `${line.time} ` : ""}${prefix}${line.text}\n`;
    })
    .join("");
}

/** The API path of a container's log. */
export function logPath(
  source: LogSource,
  options: { follow?: boolean; previous?: boolean; tailLines?: number; sinceSeconds?: number; sinceTime?: string },
): string {
  const query = new URLSearchParams({ container: source.container, timestamps: "true" });
  if (options.follow) query.set("follow", "true");
  if (options.previous) query.set("previous", "true");
  if (options.tailLines !== undefined) query.set("tailLines", String(options.tailLines));
  if (options.sinceSeconds) query.set("sinceSeconds", String(options.sinceSeconds));
  if (options.sinceTime) query.set("sinceTime", options.sinceTime);
  return `/api/v1/namespaces/${encodeURIComponent(source.namespace)}/pods/${encodeURIComponent(source.pod)}/log?${query}`;
}
