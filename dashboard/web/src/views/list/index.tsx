/** The list of any kind, from its Table: live, searched, filtered, sorted, selected. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ActionBar } from "../../app/actions";
import { catalog } from "../../app/i18n";
import type { ApiError } from "../../app/http";
import type { TableColumn } from "../../app/kubernetes";
import { listCommand } from "../../app/kubectl";
import { discovery, listHref, listPath, objectHref, routeName, useRediscovery, type Resource } from "../../app/resources";
import { href, navigate, setQuery } from "../../app/router";
import { readSetting, writeSetting } from "../../app/settings";
import { useShortcuts } from "../../app/shortcuts";
import { rowName, rowNamespace, stream, type Row } from "../../app/stream";
import { Button, Checkbox, Empty, ErrorBox, KubectlHint, Loading, Search, Status, statusLevel, Table, type Sort } from "../../components";
import { toggled } from "../../components/Table";
import { objectActions, views, type ViewProps } from "..";
import { access } from "../../app/access";
import { tableColumns } from "./columns";
import { LiveRows, searchFilter, sortKey, type LiveRow } from "./rows";

const t = catalog({
  search: ["Search", "搜索"],
  searchHint: ["Search: word, -word, status:pending", "搜索：词、-排除、status:pending"],
  labels: ["Label selector", "Label 选择器"],
  labelsHint: ["app=web,tier!=db", "app=web,tier!=db"],
  waiting: ["{n} new", "{n} 个新增"],
  moved: ["Rows have changed", "列表有变化"],
  wide: ["All columns", "所有列"],
  count: ["{n} {n|object|objects}", "{n} 个对象"],
  filtered: ["{n} of {all}", "{n} / {all}"],
  selected: ["{n} selected", "已选 {n} 个"],
  clear: ["Clear the selection", "清除选择"],
  create: ["Create", "创建"],
  noneTitle: ["No {kind} here", "此处没有 {kind}"],
  noneNamespace: ["There is none in namespace {namespace}.", "namespace {namespace} 中没有。"],
  noneAll: ["There is none in the cluster.", "集群中没有。"],
  allNamespaces: ["Look in all namespaces", "查看所有 namespace"],
  noMatch: ["Nothing matches the search", "没有匹配的对象"],
  clearSearch: ["Clear the search", "清除搜索"],
  unknown: ["This cluster has no such kind", "集群中没有该类型"],
  unknownNext: ["It may have been a custom resource whose definition is deleted.", "它可能是已被删除的自定义资源。"],
  keyDown: ["Next row", "下一行"],
  keyUp: ["Previous row", "上一行"],
  keyOpen: ["Open the row", "打开该行"],
  keySelect: ["Select the row", "选择该行"],
  keySearch: ["Search in the list", "在列表中搜索"],
  keyYaml: ["YAML of the row", "查看该行的 YAML"],
  keyAll: ["All namespaces", "所有 namespace"],
  keyFirst: ["First row", "第一行"],
  keyLast: ["Last row", "最后一行"],
  live: ["{kind} list", "{kind} 列表"],
});

const LATEST_EVENTS_FIRST = "Last Seen";
const SETTLE_MS = 700;
const STATUS_CHIPS = 6;

export default function List({ cluster, params, query }: ViewProps) {
  const { catalog: kinds, error } = discovery(cluster).value;
  const name = params["resource"] ?? "";
  const resource = kinds?.byRouteName(name);
  useRediscovery(cluster, kinds !== undefined && !resource);
  if (!kinds) return <div class="page">{error ? <ErrorBox error={error} /> : <Loading />}</div>;
  if (!resource) return <Empty title={t("unknown")}>{t("unknownNext")}</Empty>;
  return <ResourceList key={`${cluster}/${name}/${query["namespace"] ?? ""}/${query["label"] ?? ""}`} cluster={cluster} resource={resource} query={query} />;
}

interface Live {
  readonly columns: readonly TableColumn[];
  readonly isComplete: boolean;
  readonly error: ApiError | null;
  readonly version: number;
}

function ResourceList({ cluster, resource, query }: { cluster: string; resource: Resource; query: ViewProps["query"] }) {
  const namespace = query["namespace"] ?? "";
  const search = query["q"] ?? "";
  const label = query["label"] ?? "";
  const sort = readSort(query["sort"] ?? (resource.name === "events" ? LATEST_EVENTS_FIRST : ""));
  const [live, setLive] = useState<Live>({ columns: [], isComplete: false, error: null, version: 0 });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<string | undefined>(undefined);
  const [isWide, setWide] = useState(readSetting("columns") === "all");
  const place = useRef<HTMLDivElement>(null);
  const scrollTop = useRef(0);
  const settings = useMemo(() => rowSettings(live.columns, sort, search), [live.columns, sort.column, sort.descending, search]);
  const rows = useRef<LiveRows | null>(null);
  rows.current ??= new LiveRows(settings);
  const configured = useRef(settings);
  if (configured.current !== settings) {
    configured.current = settings;
    rows.current.configure(settings);
  }

  useEffect(() => {
    const store = rows.current;
    if (!store) return undefined;
    let columns: readonly TableColumn[] = [];
    const draw = (changes: Partial<Live>): void => setLive((before) => ({ ...before, ...changes, version: before.version + 1 }));
    const request = { path: listPath(resource, namespace), table: true, limit: 500, ...(label ? { labelSelector: label } : {}) };
    return stream(cluster).subscribe(request, {
      onMessage(message) {
        if (message.type === "snapshot") {
          columns = message.columns ?? [];
          store.replace(message.rows ?? []);
          draw({ columns, isComplete: !message.more, error: null });
        } else {
          store.apply(message.changes ?? []);
          if (message.more === undefined) return draw({});
          store.settle(); // A further page of the first list: its rows are no news.
          draw({ isComplete: !message.more });
        }
      },
      onError: (error) => draw({ error, isComplete: true }),
    });
  }, [cluster, resource, namespace, label]);

  // Rows settle by themselves as long as nobody reads or uses the list.
  const isHeld = (): boolean => scrollTop.current > 0 || selected.size > 0 || cursor !== undefined || Boolean(place.current?.matches(":hover, :focus-within"));
  useEffect(() => {
    const timer = window.setInterval(() => {
      const store = rows.current;
      if (!store || store.isSettled || isHeld()) return;
      store.settle();
      setLive((before) => ({ ...before, version: before.version + 1 }));
    }, SETTLE_MS);
    return () => window.clearInterval(timer);
  });
  const settle = (): void => {
    rows.current?.settle();
    setLive((before) => ({ ...before, version: before.version + 1 }));
  };

  useEffect(() => { document.title = `${resource.kind} · ${namespace || cluster} · Sampan`; }, [resource, namespace, cluster]);

  const shown = rows.current.shown;
  const showNamespace = resource.namespaced && !namespace;
  const columns = useMemo(() => tableColumns(cluster, resource, live.columns, { showNamespace, isWide, sample: shown.slice(0, 200) }),
    [cluster, resource, live.columns, showNamespace, isWide, live.isComplete]);
  const open = (entry: LiveRow | undefined, tab = ""): void => { if (entry) navigate(objectHref(cluster, resource, rowNamespace(entry.row), rowName(entry.row), tab)); };
  const step = (offset: number): void => {
    const index = cursor === undefined ? -1 : shown.findIndex((entry) => entry.row.key === cursor);
    setCursor(shown[Math.max(0, Math.min(shown.length - 1, index + offset))]?.row.key);
  };
  const current = (): LiveRow | undefined => shown.find((entry) => entry.row.key === cursor);
  useShortcuts([
    { keys: "j", label: () => t("keyDown"), run: () => step(1) },
    { keys: "ArrowDown", label: () => t("keyDown"), run: () => step(1) },
    { keys: "k", label: () => t("keyUp"), run: () => step(-1) },
    { keys: "ArrowUp", label: () => t("keyUp"), run: () => step(-1) },
    { keys: "Home", label: () => t("keyFirst"), run: () => setCursor(shown[0]?.row.key) },
    { keys: "End", label: () => t("keyLast"), run: () => setCursor(shown.at(-1)?.row.key) },
    { keys: "Enter", label: () => t("keyOpen"), run: () => open(current()) },
    { keys: "y", label: () => t("keyYaml"), run: () => open(current(), "yaml") },
    { keys: "Space", label: () => t("keySelect"), run: () => { if (cursor !== undefined) setSelected(toggled(selected, cursor)); } },
    { keys: "/", label: () => t("keySearch"), run: () => document.getElementById("list-search")?.focus() },
    { keys: "0", label: () => t("keyAll"), run: () => setQuery({ namespace: "" }) },
    { keys: "Escape", label: () => t("clear"), run: () => { setSelected(new Set()); setCursor(undefined); } },
  ], [cursor, selected, live.version, cluster, resource]);

  const targets = targetsOf(rows.current, selected.size > 0 ? selected : new Set(cursor === undefined ? [] : [cursor]));
  const total = rows.current.size;
  const waiting = rows.current.waiting;
  const hasBulk = objectActions.some((action) => action.isBulk && action.appliesTo(resource));
  return (
    <div class="page fill list">
      <header class="page-header">
        <h1>{resource.kind} <span class="count" aria-live="off">{search ? t("filtered", { n: shown.length, all: total }) : total.toLocaleString()}</span></h1>
        <CreateLink cluster={cluster} resource={resource} namespace={namespace} />
      </header>
      <div class="toolbar" role="search">
        <Search id="list-search" label={t("search")} placeholder={t("searchHint")} value={search} onInput={(value) => setQuery({ q: value })} />
        <LabelInput label={label} />
        <StatusChips columns={live.columns} rows={rows.current} search={search} version={live.version} />
        {live.columns.some((column) => (column.priority ?? 0) > 0) && (
          <Checkbox label={t("wide")} checked={isWide} onChange={(checked) => { setWide(checked); writeSetting("columns", checked ? "all" : "some"); }} />
        )}
        {!rows.current.isSettled && isHeld() && (
          <button type="button" class="chip new" onClick={settle}>{waiting > 0 ? t("waiting", { n: waiting }) : t("moved")}</button>
        )}
      </div>
      {selected.size > 0 && (
        <div class="toolbar selection" role="region" aria-label={t("selected", { n: selected.size })}>
          <strong>{t("selected", { n: selected.size })}</strong>
          <ActionBar cluster={cluster} resource={resource} targets={targets} />
          <Button look="quiet" onClick={() => setSelected(new Set())}>{t("clear")}</Button>
        </div>
      )}
      {selected.size === 0 && <ActionBar cluster={cluster} resource={resource} targets={targets} isHidden />}
      {live.error && <ErrorBox error={live.error} />}
      {!live.error && live.isComplete && shown.length === 0 && (
        search ? <Empty title={t("noMatch")}><Button onClick={() => setQuery({ q: "" })}>{t("clearSearch")}</Button></Empty> : <NoObjects cluster={cluster} resource={resource} namespace={namespace} />
      )}
      {live.version === 0 && <Loading rows={12} />}
      {shown.length > 0 && (
        <div class="table-place" ref={place}>
          <Table label={t("live", { kind: resource.kind })} columns={columns} rows={shown} rowKey={rowKey} rowName={(entry) => rowName(entry.row)} rowClass={rowClass}
            sort={sort} onSort={(next) => setQuery({ sort: writeSort(next) })} cursor={cursor} onCursor={setCursor} onOpen={open}
            {...(hasBulk ? { selected, onSelect: setSelected } : {})} onScroll={(top) => { scrollTop.current = top; }} />
        </div>
      )}
      <KubectlHint command={listCommand(resource, { namespace, label })} />
    </div>
  );
}

function rowKey(entry: LiveRow): string {
  return entry.row.key;
}

function rowClass(entry: LiveRow): string {
  if (entry.isDeleted) return "deleted";
  return entry.row.metadata.deletionTimestamp ? "terminating" : "";
}

function targetsOf(rows: LiveRows, keys: ReadonlySet<string>) {
  if (keys.size === 0) return [];
  return [...rows.values()].filter((entry) => keys.has(entry.row.key))
    .map(({ row }) => ({ name: rowName(row), ...(rowNamespace(row) ? { namespace: rowNamespace(row) } : {}) }));
}

export function readSort(text: string): Sort {
  return { column: text.replace(/^-/, ""), descending: text.startsWith("-") };
}

export function writeSort(sort: Sort): string {
  return (sort.descending ? "-" : "") + sort.column;
}

function rowSettings(columns: readonly TableColumn[], sort: Sort, search: string) {
  const index = columns.findIndex((column) => column.name === sort.column);
  const column = columns[index];
  const byAge = column?.name === "Age";
  // Younger objects have the smaller age, as in the column.
  const sortKeyOf = (row: Row) => {
    if (sort.column === "") return row.key;
    if (sort.column === "Name") return rowName(row);
    if (sort.column === "Namespace") return rowNamespace(row);
    if (byAge) return -Date.parse(row.metadata.creationTimestamp ?? "") || 0;
    return sortKey(row.cells[index]);
  };
  return { sortKeyOf, descending: sort.descending, matches: searchFilter(search, columns) };
}

function LabelInput({ label }: { label: string }) {
  return (
    <input class="label-input" aria-label={t("labels")} title={t("labels")} placeholder={t("labelsHint")} value={label} spellcheck={false} autocomplete="off"
      onChange={(event) => setQuery({ label: event.currentTarget.value.trim() })} />
  );
}

/** How many rows have each status, as filters. */
function StatusChips({ columns, rows, search, version }: { columns: readonly TableColumn[]; rows: LiveRows; search: string; version: number }) {
  const index = columns.findIndex((column) => column.name === "Status" || column.name === "Phase");
  const column = columns[index];
  const counts = useMemo(() => {
    const found = new Map<string, number>();
    if (index >= 0) for (const { row } of rows.values()) found.set(String(row.cells[index]), (found.get(String(row.cells[index])) ?? 0) + 1);
    return [...found].sort((a, b) => b[1] - a[1]).slice(0, STATUS_CHIPS);
  }, [index, version]);
  if (!column || counts.length === 0) return null;
  const term = (status: string) => `${column.name.toLowerCase()}:${/\s/.test(status) ? `"${status}"` : status}`;
  return (
    <div class="row chips">
      {counts.map(([status, count]) => {
        const isOn = search.includes(term(status));
        return (
          <button type="button" key={status} class="chip" aria-pressed={isOn} onClick={() => setQuery({ q: isOn ? search.replace(term(status), "").trim() : term(status) })}>
            <Status text={status} level={statusLevel(status)} /> <span class="chip-count">{count}</span>
          </button>
        );
      })}
    </div>
  );
}

function CreateLink({ cluster, resource, namespace }: { cluster: string; resource: Resource; namespace: string }) {
  if (!views.some((view) => view.id === "create") || !resource.verbs.includes("create")) return null;
  const answer = access(cluster, { verb: "create", group: resource.group, resource: resource.name, ...(namespace && resource.namespaced ? { namespace } : {}) }).value;
  if (answer.allowed === false) return <span class="denied muted" title={answer.reason}>{answer.reason}</span>;
  return <a class="button primary" href={href(["c", cluster, "create", routeName(resource)], { namespace })}>{t("create")}</a>;
}

function NoObjects({ cluster, resource, namespace }: { cluster: string; resource: Resource; namespace: string }) {
  const isScoped = resource.namespaced && namespace !== "";
  return (
    <Empty title={t("noneTitle", { kind: resource.kind })}>
      <p>{isScoped ? t("noneNamespace", { namespace }) : t("noneAll")}</p>
      {isScoped && <p><a href={listHref(cluster, resource)}>{t("allNamespaces")}</a></p>}
    </Empty>
  );
}
