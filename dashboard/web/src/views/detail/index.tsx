/** The details of one object, of any kind, live: a header with actions, and tabs. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { ActionBar } from "../../app/actions";
import { catalog } from "../../app/i18n";
import { at, text, type KubernetesObject } from "../../app/kubernetes";
import { objectCommand } from "../../app/kubectl";
import { Lazy } from "../../app/lazy";
import { apiVersion, discovery, listHref, listPath, objectHref, useRediscovery, type Resource } from "../../app/resources";
import { navigate } from "../../app/router";
import { hasFeature } from "../../app/session";
import { useShortcuts } from "../../app/shortcuts";
import { useLiveObject } from "../../app/stream";
import { Age, Empty, ErrorBox, KubectlHint, Loading, Status, Tabs } from "../../components";
import { detailTabs, type ViewProps } from "..";
import { recordVersion } from "./versions";

const t = catalog({
  unknown: ["This cluster has no such kind", "集群中没有该类型"],
  gone: ["{kind} {name} does not exist", "{kind} {name} 不存在"],
  goneNext: ["It was deleted, or the address has a typing error.", "它已被删除，或地址有误。"],
  toList: ["All {kind} objects", "所有 {kind}"],
  tabs: ["Details", "详情"],
  deleted: ["This object is deleted. Below is its last state.", "该对象已被删除，以下为其最后状态。"],
  terminating: ["Terminating", "Terminating"],
  age: ["Age", "存在时间"],
  tab: ["Tab {name}", "标签页 {name}"],
  back: ["Back to the list", "返回列表"],
});

export default function Detail({ cluster, params, query }: ViewProps) {
  const { catalog: kinds, error } = discovery(cluster).value;
  const resource = kinds?.byRouteName(params["resource"] ?? "");
  useRediscovery(cluster, kinds !== undefined && !resource);
  if (!kinds) return <div class="page">{error ? <ErrorBox error={error} /> : <Loading />}</div>;
  if (!resource) return <Empty title={t("unknown")} />;
  const namespace = params["namespace"] === "-" ? "" : (params["namespace"] ?? "");
  const name = params["name"] ?? "";
  return <ObjectDetail key={`${params["resource"]}/${namespace}/${name}`} cluster={cluster} resource={resource} namespace={namespace} name={name} tab={params["tab"] ?? "summary"} query={query} />;
}

interface ObjectDetailProps {
  readonly cluster: string;
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly tab: string;
  readonly query: ViewProps["query"];
}

function ObjectDetail({ cluster, resource, namespace, name, tab, query }: ObjectDetailProps) {
  const live = useLiveObject(cluster, listPath(resource, namespace), name);
  const { error } = live;
  // Items of a list have no kind of their own.
  const object = useMemo(() => live.object && { apiVersion: apiVersion(resource), kind: resource.kind, ...live.object }, [live.object, resource]);
  const last = useRef<KubernetesObject | null>(null);
  if (object && object !== last.current) {
    recordVersion(object);
    last.current = object;
  }
  useEffect(() => { document.title = `${name} · ${resource.kind} · Sampan`; }, [name, resource]);
  const tabs = detailTabs.filter((candidate) => candidate.appliesTo(resource) && (!candidate.feature || hasFeature(candidate.feature)));
  const current = tabs.find((candidate) => candidate.id === tab) ?? tabs[0];
  const list = listHref(cluster, resource, { namespace });
  useShortcuts([
    ...tabs.slice(0, 9).map((candidate, index) => ({ keys: String(index + 1), label: () => t("tab", { name: candidate.label() }), run: () => navigate(objectHref(cluster, resource, namespace, name, candidate.id)) })),
    { keys: "Escape", label: () => t("back"), run: () => navigate(list) },
  ], [cluster, resource, namespace, name]);

  const shown = object ?? last.current;
  if (!shown) {
    if (error) return <div class="page"><ErrorBox error={error} /></div>;
    if (object === undefined) return <div class="page"><Loading rows={10} /></div>;
    return <Empty title={t("gone", { kind: resource.kind, name })}><p>{t("goneNext")}</p><p><a href={list}>{t("toList", { kind: resource.kind })}</a></p></Empty>;
  }
  const status = objectStatus(shown);
  return (
    <div class="page detail">
      <header class="page-header">
        <div class="detail-title">
          <nav class="crumbs" aria-label="Breadcrumb">
            <a href={list}>{resource.kind}</a>
            {namespace && <><span aria-hidden="true">/</span><a href={listHref(cluster, resource, { namespace })}>{namespace}</a></>}
          </nav>
          <h1>{name}</h1>
          <div class="row muted">
            {shown.metadata.deletionTimestamp ? <Status text="Terminating" /> : status && <Status text={status} />}
            <span>{t("age")} <Age timestamp={shown.metadata.creationTimestamp} /></span>
          </div>
        </div>
        <div class="row actions"><ActionBar cluster={cluster} resource={resource} targets={[{ name, ...(namespace ? { namespace } : {}) }]} object={shown} /></div>
      </header>
      {object === null && <p class="message warning" role="status">{t("deleted")}</p>}
      {error && <ErrorBox error={error} />}
      <Tabs label={t("tabs")} current={current?.id ?? ""} tabs={tabs.map((candidate) => ({ id: candidate.id, label: candidate.label(), href: objectHref(cluster, resource, namespace, name, candidate.id === "summary" ? "" : candidate.id) }))} />
      {current && <Lazy key={current.id} load={current.load} props={{ cluster, resource, object: shown, query }} />}
      {current?.id === "summary" && <KubectlHint command={objectCommand("describe", resource, namespace, name)} />}
    </div>
  );
}

/** The word for the state of any object: its phase, or the condition that tells most. */
export function objectStatus(object: KubernetesObject): string {
  const waiting = [...listOf(object, "initContainerStatuses"), ...listOf(object, "containerStatuses")].map((status) => text(at(status, "state", "waiting", "reason") ?? at(status, "state", "terminated", "reason")))
    .find((reason) => reason !== "" && reason !== "Completed" && reason !== "PodInitializing");
  const phase = text(at(object, "status", "phase"));
  if (phase) return waiting ?? phase;
  const conditions = listOf(object, "conditions");
  for (const type of ["Failed", "Complete", "Available", "Ready", "Established"]) {
    const condition = conditions.find((candidate) => at(candidate, "type") === type);
    if (condition && at(condition, "status") === "True") return type;
    if (condition && (type === "Available" || type === "Ready")) return `Not${type}`;
  }
  return "";
}

function listOf(object: KubernetesObject, field: string): readonly unknown[] {
  const value = at(object, "status", field);
  return Array.isArray(value) ? value : [];
}
