/**
 * The rows of a live list. Rows hold their place while they change: a changed row is drawn anew where it stands, a
 * deleted one stays as a ghost, a new one waits. `settle` brings all to where they belong.
 */
import type { TableColumn } from "../../app/kubernetes";
import type { Change, Row } from "../../app/stream";

export type SortKey = number | string;

export interface LiveRow {
  readonly row: Row;
  readonly sortKey: SortKey;
  /** Everything that the search looks at, in lower case. */
  readonly haystack: string;
  readonly isDeleted: boolean;
}

export interface RowSettings {
  readonly sortKeyOf: (row: Row) => SortKey;
  readonly descending: boolean;
  readonly matches: (live: LiveRow) => boolean;
}

const collator = new Intl.Collator("en", { numeric: true });

export function compareKeys(a: SortKey, b: SortKey): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number") return -1;
  return typeof b === "number" ? 1 : collator.compare(a, b);
}

export class LiveRows {
  /** The rows as they are shown. Replaced, never changed in place. */
  shown: readonly LiveRow[] = [];
  private readonly all = new Map<string, LiveRow>();
  /** Place of each shown row. */
  private readonly places = new Map<string, number>();
  /** Rows that are not where they belong: new, deleted, or with another sort key. */
  private readonly unsettled = new Set<string>();
  private settings: RowSettings;

  constructor(settings: RowSettings) {
    this.settings = settings;
  }

  get size(): number {
    return this.all.size;
  }

  /** New rows that match and wait for `settle`. */
  get waiting(): number {
    let count = 0;
    for (const key of this.unsettled) {
      const live = this.all.get(key);
      if (live && !this.places.has(key) && this.settings.matches(live)) count++;
    }
    return count;
  }

  get isSettled(): boolean {
    return this.unsettled.size === 0;
  }

  values(): IterableIterator<LiveRow> {
    return this.all.values();
  }

  configure(settings: RowSettings): void {
    const isSameSort = settings.sortKeyOf === this.settings.sortKeyOf;
    this.settings = settings;
    if (!isSameSort) for (const [key, live] of this.all) this.all.set(key, { ...live, sortKey: settings.sortKeyOf(live.row) });
    this.arrange();
  }

  replace(rows: readonly Row[]): void {
    this.all.clear();
    for (const row of rows) this.all.set(row.key, this.live(row));
    this.arrange();
  }

  apply(changes: readonly Change<Row>[]): void {
    let shown: LiveRow[] | null = null;
    const draw = (key: string, live: LiveRow): void => {
      const place = this.places.get(key);
      if (place !== undefined) (shown ??= [...this.shown])[place] = live;
    };
    for (const [verb, value] of changes) {
      if (verb === "DELETE") {
        const before = this.all.get(value);
        if (!before) continue;
        this.all.delete(value);
        this.unsettled.add(value);
        draw(value, { ...before, isDeleted: true });
        continue;
      }
      const before = this.all.get(value.key);
      const live = this.live(value);
      this.all.set(value.key, live);
      if (before?.sortKey !== live.sortKey || !this.places.has(value.key) || !this.settings.matches(live)) this.unsettled.add(value.key);
      draw(value.key, live);
    }
    if (shown) this.shown = shown;
  }

  /** Moves, adds and removes the rows that wait: one pass over the list, however long it is. */
  settle(): void {
    if (this.isSettled) return;
    const moved = [...this.unsettled].flatMap((key) => {
      const live = this.all.get(key);
      return live && this.settings.matches(live) ? [live] : [];
    });
    moved.sort(this.compare);
    const kept = this.shown.filter((live) => !this.unsettled.has(live.row.key));
    this.show(this.merge(kept, moved));
  }

  private merge(kept: readonly LiveRow[], moved: readonly LiveRow[]): LiveRow[] {
    if (moved.length === 0) return [...kept];
    const merged: LiveRow[] = [];
    let next = 0;
    for (const live of kept) {
      while (next < moved.length && this.compare(moved[next] as LiveRow, live) < 0) merged.push(moved[next++] as LiveRow);
      merged.push(live);
    }
    while (next < moved.length) merged.push(moved[next++] as LiveRow);
    return merged;
  }

  private arrange(): void {
    this.show([...this.all.values()].filter(this.settings.matches).sort(this.compare));
  }

  private show(rows: readonly LiveRow[]): void {
    this.unsettled.clear();
    this.places.clear();
    rows.forEach((live, place) => this.places.set(live.row.key, place));
    this.shown = rows;
  }

  private live(row: Row): LiveRow {
    return { row, sortKey: this.settings.sortKeyOf(row), haystack: haystackOf(row), isDeleted: false };
  }

  private readonly compare = (a: LiveRow, b: LiveRow): number => {
    const order = compareKeys(a.sortKey, b.sortKey);
    if (order !== 0) return this.settings.descending ? -order : order;
    return a.row.key < b.row.key ? -1 : a.row.key > b.row.key ? 1 : 0;
  };
}

function haystackOf(row: Row): string {
  const labels = Object.entries(row.metadata.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  return [row.key, ...row.cells.map(String), ...labels].join("\n").toLowerCase();
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, y: 31_536_000 };
const BYTES: Readonly<Record<string, number>> = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 };

/** A number where the cell is one, or looks like one: counts, `3 (5m ago)`, `1/2`, durations, sizes. */
export function sortKey(cell: unknown): SortKey {
  if (typeof cell === "number") return cell;
  const text = cell === null || cell === undefined ? "" : String(cell);
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  const counted = /^(\d+) \(/.exec(text);
  if (counted) return Number(counted[1]);
  const ratio = /^(\d+)\/(\d+)$/.exec(text);
  if (ratio) return Number(ratio[2]) === 0 ? 1 : Number(ratio[1]) / Number(ratio[2]);
  const size = /^(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|Pi)$/.exec(text);
  if (size) return Number(size[1]) * (BYTES[size[2] ?? ""] ?? 1);
  if (/^(\d+[smhdy])+$/.test(text)) return [...text.matchAll(/(\d+)([smhdy])/g)].reduce((sum, [, count, unit]) => sum + Number(count) * (SECONDS[unit ?? ""] ?? 0), 0);
  return text;
}

/**
 * The search: words that a row must contain, `-word` that it must not, `column:word` for one column. Quotes keep
 * blanks together.
 */
export function searchFilter(search: string, columns: readonly TableColumn[]): (live: LiveRow) => boolean {
  const terms = [...search.toLowerCase().matchAll(/(-?)(?:([\w-]+):)?(?:"([^"]*)"|(\S+))/g)].map(([, minus, name, quoted, word]) => {
    const column = name === undefined ? -1 : columns.findIndex((candidate) => candidate.name.toLowerCase().replace(/ /g, "-") === name);
    const wanted = quoted ?? word ?? "";
    return { isExcluded: minus === "-", column, wanted: column < 0 && name !== undefined ? `${name}:${wanted}` : wanted };
  });
  return (live) => terms.every(({ isExcluded, column, wanted }) => {
    const text = column < 0 ? live.haystack : String(live.row.cells[column] ?? "").toLowerCase();
    return text.includes(wanted) !== isExcluded;
  });
}
