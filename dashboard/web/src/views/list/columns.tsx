/** Columns of a list from the columns of its Table: widths from what the cells hold, links, states and ages. */
import type { TableColumn } from "../../app/kubernetes";
import { catalog } from "../../app/i18n";
import { discovery, listHref, objectHref, type Resource } from "../../app/resources";
import { rowName, rowNamespace } from "../../app/stream";
import { Age, Status, type Column } from "../../components";
import type { LiveRow } from "./rows";

const t = catalog({ name: ["Name", "名称"], namespace: ["Namespace", "Namespace"] });

const STATUS_COLUMNS = new Set(["Status", "Phase", "Condition"]);
const SUMMARY_COLUMNS = new Set(["Status", "Phase", "Ready", "Age", "Type", "Reason", "Last Seen", "Namespace"]);
/** An event has no name that people read: on narrow screens its message is the first line. */
const EVENT_SUMMARY = new Set(["Last Seen", "Reason", "Object"]);
/** Cells up to this length are never cut off. */
const SHORT = 14;
const WIDEST = 36;
const WIDEST_NAME = 56;

export interface ColumnOptions {
  readonly showNamespace: boolean;
  readonly isWide: boolean;
  readonly sample: readonly LiveRow[];
}

export function tableColumns(cluster: string, resource: Resource, columns: readonly TableColumn[], options: ColumnOptions): Column<LiveRow>[] {
  const shown = columns.map((column, index) => ({ column, index })).filter(({ column }) => options.isWide || (column.priority ?? 0) === 0);
  const isEvents = resource.name === "events";
  const cells: Column<LiveRow>[] = shown.map(({ column, index }) => {
    const isName = column.format === "name" || (index === 0 && column.name === "Name");
    return {
      id: isName ? "Name" : column.name,
      title: isName ? t("name") : column.name,
      ...(column.description ? { help: column.description } : {}),
      width: columnWidth(column.name, options.sample.map(({ row }) => row.cells[index]), isName ? WIDEST_NAME : WIDEST),
      align: column.type === "integer" || column.type === "number" ? "end" : "start",
      isSummary: (isEvents ? EVENT_SUMMARY : SUMMARY_COLUMNS).has(column.name),
      isLead: isEvents && column.name === "Message",
      render: isName ? (entry) => <NameCell cluster={cluster} resource={resource} entry={entry} /> : (entry) => cell(cluster, column, entry, index),
    };
  });
  if (!options.showNamespace) return cells;
  const namespace: Column<LiveRow> = {
    id: "Namespace", title: t("namespace"), isSummary: true,
    width: columnWidth("Namespace", options.sample.map(({ row }) => rowNamespace(row)), WIDEST),
    render: ({ row }) => <a class="quiet" href={listHref(cluster, resource, { namespace: rowNamespace(row) })}>{rowNamespace(row)}</a>,
  };
  const name = cells.findIndex((column) => column.id === "Name");
  return [...cells.slice(0, name + 1), namespace, ...cells.slice(name + 1)];
}

/** As wide as nine of ten cells need, within bounds; long columns share what is left. */
export function columnWidth(title: string, cells: readonly unknown[], widest: number): string {
  const lengths = cells.map((cell) => String(cell ?? "").length).sort((a, b) => a - b);
  const longest = lengths.at(-1) ?? 0;
  const typical = Math.max(title.length + 2, longest <= SHORT ? longest : (lengths[Math.floor(lengths.length * 0.95)] ?? 0));
  const width = Math.max(5, Math.min(widest, typical + 2));
  return `minmax(${Math.round(width * 6.8 + 20)}px, ${width}fr)`;
}

function NameCell({ cluster, resource, entry }: { cluster: string; resource: Resource; entry: LiveRow }) {
  const name = rowName(entry.row);
  return <a class="name" href={objectHref(cluster, resource, rowNamespace(entry.row), name)} title={name}>{name}</a>;
}

function cell(cluster: string, column: TableColumn, { row }: LiveRow, index: number) {
  const value = row.cells[index];
  if (column.name === "Age") return <Age timestamp={row.metadata.creationTimestamp} />;
  const text = value === null || value === undefined ? "" : String(value);
  if (text === "") return null;
  if (STATUS_COLUMNS.has(column.name)) return <Status text={row.metadata.deletionTimestamp && text === "Active" ? "Terminating" : text} />;
  if (column.name === "Node" && text && !text.startsWith("<")) {
    const nodes = discovery(cluster).peek().catalog?.find("nodes");
    if (nodes) return <a class="quiet" href={objectHref(cluster, nodes, undefined, text)} title={text}>{text}</a>;
  }
  if (column.name === "Object" && text.includes("/")) return <ObjectCell cluster={cluster} namespace={rowNamespace(row)} text={text} />;
  return <span title={text}>{text}</span>;
}

/** The object of an event, which its column names as `pod/web-0`. */
function ObjectCell({ cluster, namespace, text }: { cluster: string; namespace: string; text: string }) {
  const [kind = "", name = ""] = text.split("/", 2);
  const resource = discovery(cluster).peek().catalog?.all.find((candidate) => candidate.singular === kind || candidate.kind.toLowerCase() === kind);
  if (!resource) return <span title={text}>{text}</span>;
  return <a class="quiet" href={objectHref(cluster, resource, resource.namespaced ? namespace : undefined, name)} title={text}>{text}</a>;
}
