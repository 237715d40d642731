/** Who changed what: the last writes to the API, with filters that stay in the address. */
import { cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import { discovery, objectHref, qualifiedName } from "../../app/resources";
import { setQuery } from "../../app/router";
import { formatTime } from "../../app/time";
import { Age, Button, Checkbox, Empty, ErrorBox, Loading, Status, Table, type Column } from "../../components";
import type { ViewProps } from "..";
import { useLoad } from "../load";
import { formatSeconds } from "../trace/waterfall";
import "./audit.css";

const t = catalog({
  title: ["Audit", "审计"],
  explain: ["Who changed what: the last writes to the API server, the latest first. Contents of objects are not recorded.", "谁修改了什么：最近对 API server 的写入，最新在前。不记录对象内容。"],
  time: ["Time", "时间"],
  actor: ["User", "用户"],
  action: ["Verb", "操作"],
  object: ["Object", "对象"],
  outcome: ["Result", "结果"],
  took: ["Took", "耗时"],
  failed: ["Only failures", "仅失败"],
  system: ["Also the system's own writes", "包含系统自身的写入"],
  namespace: ["Namespace", "Namespace"],
  resource: ["Resource", "资源"],
  name: ["Name", "名称"],
  filter: ["Filter", "筛选"],
  clear: ["Clear filters", "清除筛选"],
  none: ["No write matches", "没有匹配的写入"],
  begins: ["Writes are known since {time}.", "仅知 {time} 之后的写入。"],
});

export interface AuditEntry {
  readonly number: number;
  readonly time: number;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
  readonly outcome: string;
  readonly tookSeconds: number;
}

const POLL_MS = 4000;
const NOISE = /^(leases\.coordination|events|selfsubject|subjectaccessreviews|tokenreviews)/;

const SYSTEM = /^system:(?!serviceaccount:(?!kube-system:))/;

/** Writes of people and their programs, not those by which a cluster keeps itself alive. */
export function isOfPerson(entry: AuditEntry): boolean {
  return !SYSTEM.test(entry.actor) && !NOISE.test(entry.resource);
}

export default function AuditView({ cluster: clusterName, query }: ViewProps) {
  const filters = ["actor", "namespace", "resource", "name"].flatMap((key) => (query[key] ? [[key, query[key]] as const] : []));
  const showsSystem = query["system"] === "true" || (query["actor"] ?? "").startsWith("system:");
  const isFailed = query["failed"] === "true";
  const parameters = new URLSearchParams({ ...Object.fromEntries(filters), ...(isFailed ? { failed: "true" } : {}), limit: showsSystem ? "500" : "5000" });
  const audit = useLoad(() => cluster(clusterName).computed<{ entries: readonly AuditEntry[]; recorderBegin: number | null }>(`audit?${parameters}`), [clusterName, parameters.toString()], POLL_MS);
  const entries = (audit.value?.entries ?? []).filter((entry) => showsSystem || isOfPerson(entry));
  const resources = discovery(clusterName).value.catalog;
  const link = (entry: AuditEntry) => {
    const resource = resources?.all.find((item) => qualifiedName(item) === entry.resource);
    const label = [entry.resource, entry.namespace, entry.name].filter(Boolean).join("/") + (entry.subresource ? `/${entry.subresource}` : "");
    if (!resource || !entry.name || entry.action === "delete") return label || entry.subject;
    return <a href={objectHref(clusterName, resource, entry.namespace, entry.name)}>{label}</a>;
  };
  const columns: readonly Column<AuditEntry>[] = [
    { id: "time", title: t("time"), width: "5rem", isSummary: true, render: (entry) => <Age timestamp={new Date(entry.time * 1000).toISOString()} /> },
    { id: "actor", title: t("actor"), width: "minmax(10rem, 1.2fr)", isSummary: true, render: (entry) => <button type="button" class="audit-filter" onClick={() => setQuery({ actor: entry.actor })}>{entry.actor}</button> },
    { id: "action", title: t("action"), width: "8rem", isSummary: true, render: (entry) => entry.action },
    { id: "object", title: t("object"), width: "minmax(14rem, 2fr)", render: link },
    { id: "outcome", title: t("outcome"), width: "minmax(7rem, 0.8fr)", isSummary: true, render: (entry) => <Status text={entry.outcome} level={entry.outcome.startsWith("2") ? "good" : "bad"} /> },
    { id: "took", title: t("took"), width: "5.5rem", align: "end", render: (entry) => formatSeconds(entry.tookSeconds) },
  ];
  return (
    <div class="page fill">
      <h1>{t("title")}</h1>
      <p class="muted">{t("explain")} {audit.value?.recorderBegin && t("begins", { time: formatTime(audit.value.recorderBegin * 1000) })}</p>
      <form class="toolbar" onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        setQuery(Object.fromEntries(["actor", "namespace", "resource", "name"].map((key) => [key, String(form.get(key) ?? "")])));
      }}>
        {(["actor", "namespace", "resource", "name"] as const).map((key) => <input key={`${key}=${query[key] ?? ""}`} class="audit-input" name={key} aria-label={t(key)} placeholder={t(key)} defaultValue={query[key] ?? ""} spellcheck={false} />)}
        <Button type="submit">{t("filter")}</Button>
        {filters.length > 0 && <Button onClick={() => setQuery({ actor: "", namespace: "", resource: "", name: "" })}>{t("clear")}</Button>}
        <Checkbox label={t("failed")} checked={isFailed} onChange={(checked) => setQuery({ failed: checked ? "true" : "" })} />
        <Checkbox label={t("system")} checked={showsSystem} onChange={(checked) => setQuery({ system: checked ? "true" : "" })} />
      </form>
      {audit.error && <ErrorBox error={audit.error} onRetry={audit.reload} />}
      {!audit.value && !audit.error && <Loading />}
      {audit.value && entries.length === 0 && <Empty title={t("none")} />}
      {entries.length > 0 && <div class="audit-table"><Table label={t("title")} columns={columns} rows={entries} rowKey={(entry) => String(entry.number)} /></div>}
    </div>
  );
}
