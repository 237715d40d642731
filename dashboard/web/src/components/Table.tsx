/**
 * A table that draws only the rows in view: 10,000 rows cost as much as 50. Rows have one height; the header stays.
 * On narrow screens a row becomes two lines: the first column, and the columns marked `isSummary`.
 */
import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { catalog } from "../app/i18n";
import { Icon } from "./Icon";

const t = catalog({
  selectAll: ["Select all rows", "全选"],
  select: ["Select {name}", "选择 {name}"],
});

export interface Column<T> {
  readonly id: string;
  readonly title: string;
  readonly help?: string;
  /** Width of the column as CSS grid has it, such as `minmax(8rem, 1fr)`. */
  readonly width?: string;
  readonly align?: "start" | "end";
  readonly isSortable?: boolean;
  /** Shown in the second line of a row on narrow screens. */
  readonly isSummary?: boolean;
  /** The first line of a row on narrow screens, in place of the first column. */
  readonly isLead?: boolean;
  readonly render: (row: T) => ComponentChildren;
}

export interface Sort {
  readonly column: string;
  readonly descending: boolean;
}

export interface TableProps<T> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowKey: (row: T) => string;
  readonly rowName?: (row: T) => string;
  readonly rowClass?: (row: T) => string;
  readonly sort?: Sort;
  readonly onSort?: (sort: Sort) => void;
  readonly selected?: ReadonlySet<string>;
  readonly onSelect?: (selected: ReadonlySet<string>) => void;
  readonly onOpen?: (row: T) => void;
  /** The row that the keyboard is on. */
  readonly cursor?: string | undefined;
  readonly onCursor?: (key: string) => void;
  readonly onScroll?: (scrollTop: number) => void;
}

const ROW_HEIGHT = 33;
const NARROW_ROW_HEIGHT = 58;
const MARGIN_ROWS = 12;
const NARROW = "(max-width: 700px)";

export interface RowWindow {
  readonly first: number;
  readonly last: number;
}

/** The rows to draw, `last` excluded, for a scroll position: those in view and a margin, in steps so that few scrolls redraw. */
export function visibleRows(scrollTop: number, height: number, rowHeight: number, count: number): RowWindow {
  const step = MARGIN_ROWS / 2;
  const top = Math.floor(scrollTop / rowHeight / step) * step;
  const first = Math.max(0, Math.min(top - MARGIN_ROWS, count));
  return { first, last: Math.min(count, top + Math.ceil(height / rowHeight) + MARGIN_ROWS + step) };
}

export function Table<T>(props: TableProps<T>) {
  const { columns, rows, rowKey, selected, onSelect } = props;
  const viewport = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState({ scrollTop: 0, height: 800 });
  const isNarrow = useMedia(NARROW);
  const rowHeight = isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  const { first, last } = visibleRows(place.scrollTop, place.height, rowHeight, rows.length);

  useEffect(() => {
    const element = viewport.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setPlace((before) => ({ ...before, height: element.clientHeight })));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const { cursor } = props;
  useEffect(() => {
    const element = viewport.current;
    const index = cursor === undefined ? -1 : rows.findIndex((row) => rowKey(row) === cursor);
    if (!element || index < 0) return;
    const top = index * rowHeight;
    const header = ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight - header) element.scrollTop = top + rowHeight + header - element.clientHeight;
  }, [cursor]);

  const onScroll = (event: { currentTarget: HTMLDivElement }) => {
    const { scrollTop, clientHeight } = event.currentTarget;
    props.onScroll?.(scrollTop);
    const next = visibleRows(scrollTop, clientHeight, rowHeight, rows.length);
    if (next.first !== first || next.last !== last) setPlace({ scrollTop, height: clientHeight });
  };
  const template = [onSelect ? "2.25rem" : "", ...columns.map((column) => column.width ?? "minmax(6rem, 1fr)")].join(" ");
  const areAllSelected = rows.length > 0 && (selected?.size ?? 0) >= rows.length && rows.every((row) => selected?.has(rowKey(row)));
  const current = useRef(props);
  current.current = props;

  return (
    <div ref={viewport} class={`table ${isNarrow ? "narrow" : ""}`} role="table" aria-label={props.label} aria-rowcount={rows.length + 1}
      aria-colcount={columns.length + (onSelect ? 1 : 0)} tabIndex={0} onScroll={onScroll}>
      <div role="rowgroup" class="table-head" style={{ "--columns": template }}>
        <div role="row" class="table-row" aria-rowindex={1}>
          {onSelect && (
            <div role="columnheader" class="table-cell select">
              <input type="checkbox" aria-label={t("selectAll")} checked={areAllSelected}
                onChange={() => onSelect(areAllSelected ? new Set() : new Set(rows.map(rowKey)))} />
            </div>
          )}
          {columns.map((column) => <HeaderCell key={column.id} column={column} sort={props.sort} onSort={props.onSort} />)}
        </div>
      </div>
      <div role="rowgroup" class="table-body" style={{ "--columns": template, height: `${rows.length * rowHeight}px` }}>
        {rows.slice(first, last).map((row, offset) => {
          const key = rowKey(row);
          return (
            <TableRow key={key} row={row} columns={columns} index={first + offset} top={(first + offset) * rowHeight} look={props.rowClass?.(row) ?? ""}
              isCursor={key === cursor} isSelected={onSelect ? (selected?.has(key) ?? false) : undefined} table={current} />
          );
        })}
      </div>
    </div>
  );
}

interface TableRowProps<T> {
  readonly row: T;
  readonly columns: readonly Column<T>[];
  readonly index: number;
  readonly top: number;
  readonly look: string;
  readonly isCursor: boolean;
  /** undefined: rows cannot be selected. */
  readonly isSelected: boolean | undefined;
  /** The table as it is when an event comes: its callbacks change more often than the row. */
  readonly table: { readonly current: TableProps<T> };
}

/** A row is drawn anew only if something that it shows has changed. */
class TableRow<T> extends Component<TableRowProps<T>> {
  override shouldComponentUpdate(next: TableRowProps<T>): boolean {
    return (Object.keys(next) as (keyof TableRowProps<T>)[]).some((name) => next[name] !== this.props[name]);
  }

  override render({ row, columns, index, top, look, isCursor, isSelected, table }: TableRowProps<T>) {
    const key = table.current.rowKey(row);
    return (
      <div role="row" class={`table-row ${isCursor ? "cursor" : ""} ${isSelected ? "selected" : ""} ${look}`} aria-rowindex={index + 2} style={{ transform: `translateY(${top}px)` }}
        onClick={() => table.current.onCursor?.(key)} onDblClick={() => table.current.onOpen?.(row)}>
        {isSelected !== undefined && (
          <div role="cell" class="table-cell select">
            <input type="checkbox" aria-label={t("select", { name: table.current.rowName?.(row) ?? key })} checked={isSelected}
              onChange={() => table.current.onSelect?.(toggled(table.current.selected ?? new Set(), key))} />
          </div>
        )}
        {columns.map((column) => (
          <div role="cell" key={column.id} class={`table-cell ${column.align === "end" ? "end" : ""} ${column.isLead ? "lead" : column.isSummary ? "summary" : ""}`}>{column.render(row)}</div>
        ))}
      </div>
    );
  }
}

function HeaderCell<T>({ column, sort, onSort }: { column: Column<T>; sort: Sort | undefined; onSort: ((sort: Sort) => void) | undefined }) {
  const isSorted = sort?.column === column.id;
  const order = isSorted ? (sort.descending ? "descending" : "ascending") : undefined;
  return (
    <div role="columnheader" class={`table-cell ${column.align === "end" ? "end" : ""} ${column.isSummary ? "summary" : ""}`} aria-sort={order} title={column.help}>
      {onSort && column.isSortable !== false ? (
        <button type="button" onClick={() => onSort({ column: column.id, descending: isSorted && !sort.descending })}>
          {column.title}
          {isSorted && <Icon name={sort.descending ? "arrowDown" : "arrowUp"} size={12} />}
        </button>
      ) : column.title}
    </div>
  );
}

export function toggled(selected: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const next = new Set(selected);
  if (!next.delete(key)) next.add(key);
  return next;
}

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => window.matchMedia(query).matches);
  useEffect(() => {
    const media = window.matchMedia(query);
    const update = () => setMatches(media.matches);
    media.addEventListener("change", update);
    return () => media.removeEventListener("change", update);
  }, [query]);
  return matches;
}
