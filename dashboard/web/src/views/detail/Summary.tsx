/** The first tab: what matters about the object, conditions, containers, labels, last events. */
import type { ComponentChildren } from "preact";
import { catalog } from "../../app/i18n";
import { at, list, record, text, type KubernetesObject } from "../../app/kubernetes";
import { discovery, listHref, objectHref, type Resource } from "../../app/resources";
import { Age, Status, type Level } from "../../components";
import type { DetailTabProps } from "..";
import { EventList, useEvents } from "./Events";

const t = catalog({
  conditions: ["Conditions", "Conditions"],
  facts: ["Facts", "基本信息"],
  containers: ["Containers", "容器"],
  labels: ["Labels", "Labels"],
  annotations: ["Annotations", "Annotations"],
  owner: ["Owner", "Owner"],
  created: ["Created", "创建时间"],
  finalizers: ["Finalizers", "Finalizers"],
  none: ["none", "无"],
  events: ["Recent events", "最近事件"],
  restarts: ["{n} {n|restart|restarts}", "重启 {n} 次"],
  last: ["Last end: {reason}, exit code {code}", "上次结束：{reason}，退出码 {code}"],
  requests: ["Requests", "Requests"],
  limits: ["Limits", "Limits"],
  ports: ["Ports", "端口"],
  data: ["Data", "数据"],
  bytes: ["{n} bytes", "{n} 字节"],
  secretHidden: ["A value is shown when you open it.", "展开后显示值。"],
  binary: ["Binary data", "二进制数据"],
  template: ["Containers of the template", "模板中的容器"],
  logs: ["Logs", "日志"],
  terminal: ["Terminal", "终端"],
  objects: ["objects with this label", "带有此 label 的对象"],
});

export default function Summary({ cluster, resource, object }: DetailTabProps) {
  const conditions = list(at(object, "status", "conditions"));
  const events = useEvents(cluster, object);
  const template = at(object, "spec", "template", "spec") ?? at(object, "spec", "jobTemplate", "spec", "template", "spec");
  return (
    <div class="summary">
      <Card title={t("facts")}><Facts cluster={cluster} object={object} /></Card>
      {conditions.length > 0 && <Card title={t("conditions")}><Conditions conditions={conditions} /></Card>}
      <Card title={t("labels")}><Pairs pairs={object.metadata.labels} href={(key, value) => listHref(cluster, resource, { namespace: object.metadata.namespace, label: `${key}=${value}` })} /></Card>
      <Card title={t("annotations")}><Pairs pairs={object.metadata.annotations} /></Card>
      {resource.name === "pods" && <Card title={t("containers")} isWide><Containers cluster={cluster} resource={resource} object={object} /></Card>}
      {template !== undefined && <Card title={t("template")} isWide><TemplateContainers template={template} /></Card>}
      {(resource.name === "configmaps" || resource.name === "secrets") && <Card title={t("data")} isWide><Data object={object} isSecret={resource.name === "secrets"} /></Card>}
      {resource.name !== "events" && (events.objects?.length ?? 0) > 0 && <Card title={t("events")} isWide><EventList events={(events.objects ?? [])} limit={5} /></Card>}
    </div>
  );
}

function Card({ title, isWide, children }: { title: string; isWide?: boolean; children: ComponentChildren }) {
  return <section class={`card ${isWide ? "wide" : ""}`}><h2>{title}</h2>{children}</section>;
}

/** Fields that say most about an object of a built-in kind; others show scalars of their spec. */
const FACTS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  Pod: [["spec", "nodeName"], ["status", "podIP"], ["status", "qosClass"], ["spec", "serviceAccountName"], ["spec", "restartPolicy"], ["spec", "priorityClassName"], ["status", "reason"], ["status", "message"]],
  Deployment: [["spec", "replicas"], ["status", "updatedReplicas"], ["status", "availableReplicas"], ["spec", "strategy", "type"], ["spec", "paused"]],
  StatefulSet: [["spec", "replicas"], ["status", "readyReplicas"], ["status", "updatedReplicas"], ["spec", "serviceName"], ["spec", "updateStrategy", "type"]],
  DaemonSet: [["status", "desiredNumberScheduled"], ["status", "numberReady"], ["status", "updatedNumberScheduled"], ["spec", "updateStrategy", "type"]],
  ReplicaSet: [["spec", "replicas"], ["status", "readyReplicas"]],
  Job: [["spec", "completions"], ["spec", "parallelism"], ["status", "succeeded"], ["status", "failed"], ["status", "active"]],
  CronJob: [["spec", "schedule"], ["spec", "timeZone"], ["spec", "suspend"], ["status", "lastScheduleTime"], ["status", "lastSuccessfulTime"], ["spec", "concurrencyPolicy"]],
  Service: [["spec", "type"], ["spec", "clusterIP"], ["spec", "externalTrafficPolicy"], ["spec", "sessionAffinity"]],
  Node: [["status", "nodeInfo", "kubeletVersion"], ["status", "nodeInfo", "osImage"], ["status", "nodeInfo", "kernelVersion"], ["status", "nodeInfo", "containerRuntimeVersion"], ["spec", "podCIDR"], ["spec", "unschedulable"]],
  PersistentVolumeClaim: [["status", "phase"], ["status", "capacity", "storage"], ["spec", "volumeName"], ["spec", "storageClassName"], ["spec", "volumeMode"]],
  Event: [["type"], ["reason"], ["message"], ["count"], ["firstTimestamp"], ["lastTimestamp"]],
};

function factPaths(object: KubernetesObject): readonly (readonly string[])[] {
  const known = FACTS[object.kind ?? ""];
  if (known) return known;
  const scalars = (field: string) => Object.entries(record(object[field])).filter(([, value]) => typeof value !== "object").slice(0, 8).map(([key]) => [field, key]);
  return [...scalars("spec"), ...scalars("status")];
}

function Facts({ cluster, object }: { cluster: string; object: KubernetesObject }) {
  const kinds = discovery(cluster).value.catalog;
  const { metadata } = object;
  const nodes = kinds?.find("nodes");
  return (
    <dl class="facts">
      {factPaths(object).map((path) => {
        const value = text(at(object, ...path));
        if (value === "") return null;
        const isNode = path.at(-1) === "nodeName" && nodes;
        return <Fact key={path.join(".")} name={path.join(".").replace(/^(spec|status)\.(nodeInfo\.)?/, "")}>{isNode ? <a href={objectHref(cluster, nodes, undefined, value)}>{value}</a> : value}</Fact>;
      })}
      {object.kind === "Service" && list(at(object, "spec", "ports")).length > 0 && (
        <Fact name="ports">{list(at(object, "spec", "ports")).map((port) => `${text(at(port, "name")) ? `${text(at(port, "name"))} ` : ""}${text(at(port, "port"))}→${text(at(port, "targetPort"))}/${text(at(port, "protocol"))}`).join(", ")}</Fact>
      )}
      {object.kind === "Node" && <Fact name="capacity">{["cpu", "memory", "pods"].map((name) => `${name} ${text(at(object, "status", "capacity", name))}`).join(" · ")}</Fact>}
      {(metadata.ownerReferences ?? []).map((owner) => {
        const resource = kinds?.byKind(owner.apiVersion, owner.kind);
        return <Fact key={owner.uid} name={t("owner")}>{resource ? <a href={objectHref(cluster, resource, resource.namespaced ? metadata.namespace : undefined, owner.name)}>{owner.kind} {owner.name}</a> : `${owner.kind} ${owner.name}`}</Fact>;
      })}
      <Fact name={t("created")}><Age timestamp={metadata.creationTimestamp} /> <span class="muted mono">{metadata.creationTimestamp}</span></Fact>
      <Fact name="uid"><span class="mono">{metadata.uid}</span></Fact>
      {(metadata.finalizers?.length ?? 0) > 0 && <Fact name={t("finalizers")}>{metadata.finalizers?.join(", ")}</Fact>}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

/** Conditions that are bad when true; the others are bad when false. */
const NEGATIVE = /Pressure$|Unavailable$|Failure|Failed|Degraded|Stalled|DisruptionTarget/;

export function conditionLevel(type: string, status: string): Level {
  if (status === "Unknown") return "warning";
  return (status === "True") === NEGATIVE.test(type) ? (NEGATIVE.test(type) || status === "False" ? "bad" : "good") : "good";
}

function Conditions({ conditions }: { conditions: readonly unknown[] }) {
  return (
    <ul class="conditions">
      {conditions.map((condition) => {
        const type = text(at(condition, "type"));
        const status = text(at(condition, "status"));
        return (
          <li key={type}>
            <Status text={`${type}: ${status}`} level={conditionLevel(type, status)} />
            <span class="muted"><Age timestamp={text(at(condition, "lastTransitionTime")) || undefined} /></span>
            <p class="muted">{[text(at(condition, "reason")), text(at(condition, "message"))].filter(Boolean).join(": ")}</p>
          </li>
        );
      })}
    </ul>
  );
}

function Containers({ cluster, resource, object }: { cluster: string; resource: Resource; object: KubernetesObject }) {
  const statuses = new Map(["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"].flatMap((field) => list(at(object, "status", field))).map((status) => [text(at(status, "name")), status]));
  const containers = ["initContainers", "containers", "ephemeralContainers"].flatMap((field) => list(at(object, "spec", field)).map((container) => ({ field, container })));
  return (
    <ul class="containers">
      {containers.map(({ field, container }) => {
        const name = text(at(container, "name"));
        const status = statuses.get(name);
        const [state, detail] = Object.entries(record(at(status, "state")))[0] ?? ["waiting", {}];
        const reason = text(at(detail, "reason")) || state[0]?.toUpperCase() + state.slice(1);
        const last = at(status, "lastState", "terminated");
        const restarts = Number(at(status, "restartCount") ?? 0);
        return (
          <li key={name}>
            <div class="row"><strong>{name}</strong>{field !== "containers" && <span class="count">{field === "initContainers" ? "init" : "ephemeral"}</span>}<Status text={reason} />{restarts > 0 && <span class="muted">{t("restarts", { n: restarts })}</span>}</div>
            <div class="mono">{text(at(container, "image"))}</div>
            {text(at(detail, "message")) && <p class="muted">{text(at(detail, "message"))}</p>}
            {last !== undefined && <p class="muted">{t("last", { reason: text(at(last, "reason")), code: text(at(last, "exitCode")) })} · <Age timestamp={text(at(last, "finishedAt"))} /></p>}
            <ContainerSettings container={container} />
            <p class="container-links">
              {(["logs", "terminal"] as const).map((tab) => <a key={tab} href={`${objectHref(cluster, resource, object.metadata.namespace, object.metadata.name, tab)}?${new URLSearchParams({ container: name }).toString()}`}>{t(tab)}</a>)}
            </p>
          </li>
        );
      })}
    </ul>
  );
}

function TemplateContainers({ template }: { template: unknown }) {
  return (
    <ul class="containers">
      {["initContainers", "containers"].flatMap((field) => list(at(template, field)).map((container) => (
        <li key={`${field}/${text(at(container, "name"))}`}>
          <div class="row"><strong>{text(at(container, "name"))}</strong>{field === "initContainers" && <span class="count">init</span>}</div>
          <div class="mono">{text(at(container, "image"))}</div>
          <ContainerSettings container={container} />
        </li>
      )))}
    </ul>
  );
}

function ContainerSettings({ container }: { container: unknown }) {
  const ports = list(at(container, "ports"));
  return (
    <>
      <Resources label={t("requests")} resources={at(container, "resources", "requests")} />
      <Resources label={t("limits")} resources={at(container, "resources", "limits")} />
      {ports.length > 0 && <p class="muted">{t("ports")}: {ports.map((port) => `${text(at(port, "containerPort"))}/${text(at(port, "protocol")) || "TCP"}`).join(", ")}</p>}
    </>
  );
}

function Resources({ label, resources }: { label: string; resources: unknown }) {
  const pairs = Object.entries(record(resources));
  return pairs.length > 0 ? <p class="muted">{label}: {pairs.map(([name, amount]) => `${name} ${text(amount)}`).join(", ")}</p> : null;
}

function Data({ object, isSecret }: { object: KubernetesObject; isSecret: boolean }) {
  const pairs = [...Object.entries(record(object["data"])), ...Object.entries(record(object["binaryData"]))];
  if (pairs.length === 0) return <p class="muted">{t("none")}</p>;
  return (
    <>
      {isSecret && <p class="muted">{t("secretHidden")}</p>}
      {pairs.map(([key, value]) => (
        <details key={key} class="data-entry">
          <summary><code>{key}</code> <span class="muted">{t("bytes", { n: isSecret ? Math.floor((text(value).replace(/=+$/, "").length * 3) / 4) : text(value).length })}</span></summary>
          <pre class="code" tabIndex={0}>{isSecret ? (decodeBase64(text(value)) ?? t("binary")) : text(value)}</pre>
        </details>
      ))}
    </>
  );
}

/** The text of base64; null for bytes that are no text. */
function decodeBase64(encoded: string): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0)));
  } catch {
    return null;
  }
}

function Pairs({ pairs, href }: { pairs: Readonly<Record<string, string>> | undefined; href?: (key: string, value: string) => string }) {
  const entries = Object.entries(pairs ?? {}).filter(([key]) => key !== "kubectl.kubernetes.io/last-applied-configuration");
  if (entries.length === 0) return <p class="muted">{t("none")}</p>;
  return (
    <ul class="pairs">
      {entries.map(([key, value]) => (
        <li key={key}>
          {href ? <a href={href(key, value)} title={t("objects")}><span>{key}</span>={value}</a> : <><span class="muted">{key}</span> {value}</>}
        </li>
      ))}
    </ul>
  );
}
