/** A three-way merge by line: what I changed and what the server changed, from a common base. */
import { diffSequence, splitLines } from "./diff";

export interface Merge {
  readonly text: string;
  /** How many places both sides changed in different ways; these have conflict markers in the text. */
  readonly conflicts: number;
}

interface Hunk {
  /** The lines of the base that the hunk replaces: from `start` up to `end`. */
  readonly start: number;
  readonly end: number;
  readonly lines: readonly string[];
}

function hunks(base: readonly string[], other: readonly string[]): Hunk[] {
  const all: Hunk[] = [];
  let position = 0;
  let open: { start: number; lines: string[] } | null = null;
  const close = (): void => {
    if (open) all.push({ start: open.start, end: position, lines: open.lines });
    open = null;
  };
  for (const [change, text] of diffSequence(base, other)) {
    if (change === "same") {
      close();
      position += 1;
      continue;
    }
    open ??= { start: position, lines: [] };
    if (change === "add") open.lines.push(text);
    else position += 1;
  }
  close();
  return all;
}

/** The lines that one side has in place of the base's lines from `start` up to `end`. */
function side(base: readonly string[], own: readonly Hunk[], start: number, end: number): string[] {
  const lines: string[] = [];
  let position = start;
  for (const hunk of own) {
    lines.push(...base.slice(position, hunk.start), ...hunk.lines);
    position = hunk.end;
  }
  return [...lines, ...base.slice(position, end)];
}

export function merge(base: string, mine: string, theirs: string): Merge {
  const lines = splitLines(base);
  const left = hunks(lines, splitLines(mine));
  const right = hunks(lines, splitLines(theirs));
  const merged: string[] = [];
  let conflicts = 0;
  let position = 0;
  while (left.length || right.length) {
    const start = Math.min(left[0]?.start ?? Infinity, right[0]?.start ?? Infinity);
    let end = start;
    const taken: [Hunk[], Hunk[]] = [[], []];
    for (let grew = true; grew; ) {
      grew = false;
      for (const [index, queue] of [left, right].entries()) {
        while (queue[0] && (queue[0].start < end || queue[0].start === start)) {
          const hunk = queue.shift()!;
          taken[index]!.push(hunk);
          end = Math.max(end, hunk.end);
          grew = true;
        }
      }
    }
    merged.push(...lines.slice(position, start));
    const ours = side(lines, taken[0], start, end);
    const other = side(lines, taken[1], start, end);
    if (!taken[1].length || ours.join("\n") === other.join("\n")) merged.push(...ours);
    else if (!taken[0].length) merged.push(...other);
    else {
      conflicts += 1;
      merged.push("<<<<<<< mine", ...ours, "=======", ...other, ">>>>>>> server");
    }
    position = end;
  }
  merged.push(...lines.slice(position));
  return { text: merged.length ? `${merged.join("\n")}\n` : "", conflicts };
}
