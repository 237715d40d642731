/** What the page must know of a manifest's text: its documents, which object each names, and lines to leave out. */

export interface ManifestIdentity {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace: string;
}

export interface ManifestDocument {
  readonly text: string;
  /** The line of the first character in the whole text, from 0. */
  readonly line: number;
  readonly identity: ManifestIdentity;
}

/** Splits a YAML stream at its `---` lines. Documents with nothing but comments are left out. */
export function splitDocuments(text: string): ManifestDocument[] {
  const documents: ManifestDocument[] = [];
  let lines: string[] = [];
  let start = 0;
  const close = (): void => {
    if (lines.some((line) => /^\s*[^#\s]/.test(line))) {
      const own = `${lines.join("\n")}\n`;
      documents.push({ text: own, line: start, identity: identify(own) });
    }
  };
  const all = text.replace(/\r\n?/g, "\n").split("\n");
  all.forEach((line, index) => {
    if (/^(---(\s|$)|\.\.\.\s*$)/.test(line)) {
      close();
      lines = [];
      start = index + 1;
      return;
    }
    lines.push(line);
  });
  close();
  return documents;
}

function scalar(value: string): string {
  const trimmed = value.trim();
  const quoted = /^"((?:[^"\\]|\\.)*)"|^'((?:[^']|'')*)'/.exec(trimmed);
  if (quoted) return quoted[1] ?? (quoted[2] ?? "").replace(/''/g, "'");
  return trimmed.replace(/\s+#.*$/, "");
}

/** Reads apiVersion, kind, and the metadata's name and namespace of one document in YAML or JSON. */
export function identify(text: string): ManifestIdentity {
  if (/^\s*\{/.test(text)) return identifyJson(text);
  const found = { apiVersion: "", kind: "", name: "", namespace: "" };
  let parent = "";
  let depth = -1;
  for (const line of text.split("\n")) {
    const match = /^(\s*)(?:"([^"]+)"|'([^']+)'|([\w./-]+))\s*:(?:\s+(.*))?$/.exec(line);
    if (!match) continue;
    const indent = match[1]!.length;
    const key = match[2] ?? match[3] ?? match[4] ?? "";
    const value = match[5] ?? "";
    if (indent === 0) {
      parent = key;
      depth = -1;
      if (key === "apiVersion" || key === "kind") found[key] = scalar(value);
      const flow = key === "metadata" ? /^\{(.*)\}/.exec(value.trim()) : null;
      for (const pair of flow?.[1]?.split(",") ?? []) {
        const [own = "", item = ""] = pair.split(/:\s*/, 2);
        if (own.trim() === "name" || own.trim() === "namespace") found[own.trim() as "name"] = scalar(item);
      }
      continue;
    }
    if (parent !== "metadata") continue;
    if (depth < 0) depth = indent;
    if (indent === depth && (key === "name" || key === "namespace")) found[key] = scalar(value);
  }
  return found;
}

function identifyJson(text: string): ManifestIdentity {
  const empty = { apiVersion: "", kind: "", name: "", namespace: "" };
  try {
    const value = JSON.parse(text) as { apiVersion?: unknown; kind?: unknown; metadata?: { name?: unknown; namespace?: unknown } };
    const word = (part: unknown): string => (typeof part === "string" ? part : "");
    return {
      apiVersion: word(value.apiVersion),
      kind: word(value.kind),
      name: word(value.metadata?.name),
      namespace: word(value.metadata?.namespace),
    };
  } catch {
    return empty;
  }
}

/** Leaves out a key of the metadata with all lines that belong to it. */
function withoutBlock(text: string, key: string, indent: number): string {
  const kept: string[] = [];
  let skips = false;
  let parent = "";
  const margin = " ".repeat(indent);
  for (const line of text.split("\n")) {
    if (/^[^\s#-]/.test(line)) parent = line.split(":")[0] ?? "";
    if (skips && (line.startsWith(`${margin} `) || line.startsWith(`${margin}- `) || line === "")) continue;
    skips = line.startsWith(`${margin}${key}:`) && (indent === 0 || parent === "metadata");
    if (!skips) kept.push(line);
  }
  const joined = kept.join("\n");
  return text.endsWith("\n") && !joined.endsWith("\n") ? `${joined}\n` : joined;
}

/** The object's YAML as people edit it: without managed fields. */
export function withoutManagedFields(yaml: string): string {
  return withoutBlock(yaml, "managedFields", 2);
}

/** The object's YAML as it can be created or applied again: without what the server writes itself. */
export function withoutServerFields(yaml: string): string {
  let text = yaml;
  for (const key of ["managedFields", "uid", "resourceVersion", "creationTimestamp", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"]) {
    text = withoutBlock(text, key, 2);
  }
  return withoutBlock(text, "status", 0);
}

/** The object's YAML with another resource version in place of its own. */
export function withResourceVersion(yaml: string, resourceVersion: string): string {
  const without = withoutBlock(yaml, "resourceVersion", 2);
  if (!resourceVersion) return without;
  return without.replace(/^metadata:[ \t]*$/m, `metadata:\n  resourceVersion: "${resourceVersion}"`);
}

const PROBLEM_LINE = /line (\d+)(?:,? col(?:umn)? (\d+))?/i;

/** The line, from 0, at which a field path such as `spec.containers[0].image` stands in YAML text; -1 if it is absent. */
export function lineOfField(yaml: string, path: string): number {
  const steps = path.match(/[^.[\]]+|\[[^\]]*\]/g) ?? [];
  const lines = yaml.split("\n");
  let from = 0;
  let to = lines.length;
  let best = -1;
  for (const step of steps) {
    const item = /^\[(.*)\]$/.exec(step);
    const next = item ? itemRange(lines, from, to, item[1]!) : keyRange(lines, from, to, step);
    if (!next) return best;
    [best, from, to] = next;
  }
  return best;
}

type Range = [line: number, from: number, to: number];

function keyRange(lines: readonly string[], from: number, to: number, key: string): Range | null {
  let depth = -1;
  for (let index = from; index < to; index += 1) {
    const line = lines[index]!;
    const match = /^([\s-]*)(?:"([^"]+)"|'([^']+)'|([^\s:#"']+)):(?:\s|$)/.exec(line);
    if (!match) continue;
    const indent = match[1]!.length;
    if (depth < 0) depth = indent;
    if (indent !== depth || (match[2] ?? match[3] ?? match[4]) !== key) continue;
    let end = index + 1;
    while (end < to) {
      const text = lines[end]!;
      const margin = /^\s*/.exec(text)![0].length;
      if (text.trim() !== "" && (margin < indent || (margin === indent && !/^\s*-(\s|$)/.test(text)))) break;
      end += 1;
    }
    return [index, index + 1, end];
  }
  return null;
}

function itemRange(lines: readonly string[], from: number, to: number, which: string): Range | null {
  const wanted = Number(which);
  let depth = -1;
  let count = -1;
  let start = -1;
  for (let index = from; index < to; index += 1) {
    const match = /^(\s*)-(\s|$)/.exec(lines[index]!);
    if (!match) continue;
    if (depth < 0) depth = match[1]!.length;
    if (match[1]!.length !== depth) continue;
    count += 1;
    if (start >= 0) return [start, start, index];
    if (count === wanted) start = index;
  }
  return start >= 0 ? [start, start, to] : null;
}

/** The position that a parser's message names, from 0; null where it names none. */
export function positionInMessage(message: string): { readonly line: number; readonly column: number } | null {
  const match = PROBLEM_LINE.exec(message);
  if (!match) return null;
  return { line: Math.max(0, Number(match[1]) - 1), column: Math.max(0, Number(match[2] ?? 1) - 1) };
}
