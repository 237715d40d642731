/** Differences of two texts by line: Myers' algorithm in linear space of the common prefix and suffix, and folded runs. */

export type Change = "same" | "add" | "remove";

export interface DiffLine {
  readonly change: Change;
  readonly text: string;
  /** Line numbers, from 1; 0 where the line does not exist on that side. */
  readonly before: number;
  readonly after: number;
}

export interface Fold {
  readonly change: "fold";
  readonly lines: readonly DiffLine[];
}

/** The number of edits after which the search gives up and the rest counts as replaced. */
const MOST_EDITS = 4000;

export function splitLines(text: string): string[] {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

export function diffLines(before: string, after: string): DiffLine[] {
  return numbered(diffSequence(splitLines(before), splitLines(after)));
}

export type Edit = readonly [Change, string];

/** The edits that make `after` of `before`. */
export function diffSequence(before: readonly string[], after: readonly string[]): Edit[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (
    end < before.length - start &&
    end < after.length - start &&
    before[before.length - 1 - end] === after[after.length - 1 - end]
  ) end += 1;
  const same = (lines: readonly string[]): Edit[] => lines.map((line) => ["same", line]);
  return [
    ...same(before.slice(0, start)),
    ...myers(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...same(before.slice(before.length - end)),
  ];
}

function replaced(before: readonly string[], after: readonly string[]): Edit[] {
  return [...before.map((line): Edit => ["remove", line]), ...after.map((line): Edit => ["add", line])];
}

/** Walks the edit graph diagonal by diagonal, and remembers the furthest points of each distance. */
function myers(before: readonly string[], after: readonly string[]): Edit[] {
  const n = before.length;
  const m = after.length;
  if (n === 0 || m === 0) return replaced(before, after);
  const most = Math.min(n + m, MOST_EDITS);
  const furthest = new Int32Array(2 * most + 3);
  const middle = most + 1;
  const trace: Int32Array[] = [];
  for (let distance = 0; distance <= most; distance += 1) {
    trace.push(furthest.slice(middle - distance - 1, middle + distance + 2));
    for (let k = -distance; k <= distance; k += 2) {
      const down = k === -distance || (k !== distance && furthest[middle + k - 1]! < furthest[middle + k + 1]!);
      let x = down ? furthest[middle + k + 1]! : furthest[middle + k - 1]! + 1;
      while (x < n && x - k < m && before[x] === after[x - k]) x += 1;
      furthest[middle + k] = x;
      if (x >= n && x - k >= m) return backtrack(before, after, trace);
    }
  }
  return replaced(before, after);
}

function backtrack(before: readonly string[], after: readonly string[], trace: readonly Int32Array[]): Edit[] {
  const edits: Edit[] = [];
  let x = before.length;
  let y = after.length;
  for (let distance = trace.length - 1; distance > 0; distance -= 1) {
    const points = trace[distance]!;
    const at = (k: number): number => points[k + distance + 1]!;
    const k = x - y;
    const down = k === -distance || (k !== distance && at(k - 1) < at(k + 1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = at(fromK);
    const fromY = fromX - fromK;
    while (x > fromX && y > fromY) edits.push(["same", before[(x -= 1, y -= 1, x)]!]);
    if (down) edits.push(["add", after[(y -= 1)]!]);
    else edits.push(["remove", before[(x -= 1)]!]);
  }
  while (x > 0) edits.push(["same", before[(x -= 1)]!]);
  return edits.reverse();
}

function numbered(edits: readonly Edit[]): DiffLine[] {
  let before = 0;
  let after = 0;
  return edits.map(([change, text]) => {
    if (change !== "add") before += 1;
    if (change !== "remove") after += 1;
    return { change, text, before: change === "add" ? 0 : before, after: change === "remove" ? 0 : after };
  });
}

/** Folds long runs of unchanged lines, and keeps `context` lines around each change. */
export function foldUnchanged(lines: readonly DiffLine[], context = 3): (DiffLine | Fold)[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.change === "same") return;
    near.fill(1, Math.max(0, index - context), Math.min(lines.length, index + context + 1));
  });
  const folded: (DiffLine | Fold)[] = [];
  for (let index = 0; index < lines.length; ) {
    let end = index;
    while (end < lines.length && !near[end]) end += 1;
    if (end - index > 1) folded.push({ change: "fold", lines: lines.slice(index, end) });
    else if (end > index) folded.push(lines[index]!);
    if (end < lines.length) folded.push(lines[end]!);
    index = Math.max(end, index) + 1;
  }
  return folded;
}

export function countChanges(lines: readonly DiffLine[]): { readonly added: number; readonly removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of lines) {
    if (line.change === "add") added += 1;
    if (line.change === "remove") removed += 1;
  }
  return { added, removed };
}
