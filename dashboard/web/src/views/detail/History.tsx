/** Who changed the object: changes seen while the page is open, the audit ring where there is one, and managers of fields. */
import { useEffect, useState } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { asApiError, cluster as clusterClient, type ApiError } from "../../app/http";
import { qualifiedName } from "../../app/resources";
import { hasFeature } from "../../app/session";
import { formatTime } from "../../app/time";
import { Age, ErrorBox, Status } from "../../components";
import type { DetailTabProps } from "..";
import { fieldPaths } from "./differences";
import { seenChanges } from "./versions";

const t = catalog({
  seen: ["Changes since you opened it", "打开页面后的变化"],
  noneSeen: ["Nothing has changed since you opened it. Changes appear here as they happen.", "打开页面后没有变化。变化会实时显示在这里。"],
  audit: ["Who changed it", "谁修改了它"],
  noAudit: ["The server remembers no change of this object.", "服务器没有该对象的修改记录。"],
  begins: ["Changes are known since {time}, when the records of the server begin.", "服务器的记录始于 {time}，仅知此后的更改。"],
  nothing: ["changed nothing", "没有更改"],
  managers: ["Managers of fields", "字段管理者"],
  fields: ["{n} {n|field|fields}", "{n} 个字段"],
  none: ["none", "无"],
});

export default function History({ cluster, resource, object }: DetailTabProps) {
  const changes = seenChanges(object.metadata.uid ?? "");
  const managers = [...(object.metadata.managedFields ?? [])].sort((a, b) => (b.time ?? "").localeCompare(a.time ?? ""));
  return (
    <div class="summary">
      <section class="card wide">
        <h2>{t("seen")}</h2>
        {changes.length === 0 && <p class="muted">{t("noneSeen")}</p>}
        <ol class="changes">
          {changes.map((change) => (
            <li key={change.resourceVersion}>
              <p class="muted">{formatTime(change.at)} · resourceVersion {change.resourceVersion}</p>
              <ul>{change.differences.slice(0, 30).map((difference) => (
                <li key={difference.path}><code>{difference.path}</code> {difference.before && <del>{difference.before}</del>} {difference.after && <ins>{difference.after}</ins>}</li>
              ))}</ul>
            </li>
          ))}
        </ol>
      </section>
      {hasFeature("audit") && <Audit cluster={cluster} resource={qualifiedName(resource)} namespace={object.metadata.namespace ?? ""} name={object.metadata.name} version={object.metadata.resourceVersion ?? ""} />}
      <section class="card wide">
        <h2>{t("managers")}</h2>
        {managers.length === 0 && <p class="muted">{t("none")}</p>}
        <ul class="changes">
          {managers.map((manager, index) => {
            const paths = fieldPaths(manager.fieldsV1);
            return (
              <li key={index}>
                <div class="row"><strong>{manager.manager}</strong><Status text={manager.operation ?? ""} level="neutral" />{manager.subresource && <code>{manager.subresource}</code>}<span class="muted"><Age timestamp={manager.time} /></span></div>
                <details><summary>{t("fields", { n: paths.length })}</summary><ul class="paths">{paths.slice(0, 200).map((path) => <li key={path}><code>{path}</code></li>)}</ul></details>
              </li>
            );
          })}
        </ul>
      </section>
    </div>
  );
}

interface AuditProps {
  readonly cluster: string;
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly version: string;
}

interface AuditEntry {
  readonly number: number;
  /** Seconds since the epoch. */
  readonly time: number;
  readonly actor: string;
  readonly action: string;
  readonly subresource: string;
  readonly outcome: string;
  /** The resource version that the object had afterwards; empty where the response is no whole object. */
  readonly revision?: string;
}

/** Requests after which the object was as before: dry runs, and writes of what is there already. */
export function withoutEffect(latestFirst: readonly Pick<AuditEntry, "number" | "revision">[]): ReadonlySet<number> {
  const seen = new Set<string>();
  return new Set(latestFirst.toReversed().filter(({ revision }) => {
    if (!revision) return false;
    const isKnown = seen.has(revision);
    seen.add(revision);
    return isKnown;
  }).map(({ number }) => number));
}

function Audit({ cluster, resource, namespace, name, version }: AuditProps) {
  const [entries, setEntries] = useState<readonly AuditEntry[] | null>(null);
  const [begin, setBegin] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const query = new URLSearchParams({ resource, namespace, name });
    clusterClient(cluster).computed<{ entries: readonly AuditEntry[]; recorderBegin: number | null }>(`audit?${query.toString()}`).then((result) => {
      setEntries(result.entries);
      setBegin(result.recorderBegin);
    }, (reason: unknown) => setError(asApiError(reason)));
  }, [cluster, resource, namespace, name, version]);
  const idle = withoutEffect(entries ?? []);
  return (
    <section class="card wide">
      <h2>{t("audit")}</h2>
      {error && <ErrorBox error={error} />}
      {entries?.length === 0 && <p class="muted">{t("noAudit")}</p>}
      {entries && begin !== null && <p class="muted">{t("begins", { time: formatTime(begin * 1000) })}</p>}
      <ul class="events">
        {(entries ?? []).slice(0, 50).map((entry) => (
          <li key={entry.number}>
            <span class="event-age muted"><Age timestamp={new Date(entry.time * 1000).toISOString()} /></span>
            <Status text={[entry.action, entry.subresource].filter(Boolean).join(" ")} level="neutral" />
            <span class="event-text">{entry.actor}</span>
            <span class="muted event-source">{idle.has(entry.number) ? t("nothing") : entry.outcome}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
