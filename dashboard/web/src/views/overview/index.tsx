/** The whole cluster at a glance, live: problems first with the next step, then workloads, nodes, events, components. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { asApiError, cluster as clusterClient, type ApiError } from "../../app/http";
import type { ObjectList } from "../../app/kubernetes";
import { namespace } from "../../app/namespace";
import { discovery, listHref, listPath, objectHref } from "../../app/resources";
import { session } from "../../app/session";
import { stream } from "../../app/stream";
import { Age, ErrorBox, Icon, KubectlHint, Loading, Meter, Status, type Level } from "../../components";
import type { ViewProps } from "..";
import type { Amounts, ComponentHealth, NetworkFacts, NodesPart, NodeSummary, ObjectReference, Overview, OverviewEvent, Problem, RuntimeFacts, StoreFacts, UnreadableKind } from "./model";
import { unreadOf, verdict } from "./model";
import { formatAmount, formatBytes } from "./quantities";

const t = catalog({
  title: ["Overview", "概览"],
  problems: ["Problems", "问题"],
  well: ["No problems. Everything that should run is running.", "没有问题，一切运行正常。"],
  wellIn: ["No problems in namespace {namespace}. Everything that should run is running.", "namespace {namespace} 没有问题，一切运行正常。"],
  partly: ["No problems in what could be read.", "在可读取的范围内没有问题。"],
  unknown: ["Whether there are problems is not known: pods cannot be read.", "无法得知是否有问题：无法读取 Pod。"],
  notAllowed: ["Not read, because you may not list them: {kinds}.", "无权列出，未读取：{kinds}。"],
  notRead: ["{kind} could not be read: {message}", "无法读取 {kind}：{message}"],
  moreProblems: ["{n} more", "另有 {n} 个"],
  nodes: ["Nodes", "节点"],
  workloads: ["Workloads", "工作负载"],
  events: ["Recent warnings", "最近的警告事件"],
  noEvents: ["No warnings in the last hour.", "最近一小时没有警告事件。"],
  components: ["Components", "组件"],
  allHealthy: ["All {n} checks pass", "全部 {n} 项检查通过"],
  unhealthy: ["{n} of {all} checks fail", "{all} 项检查中有 {n} 项失败"],
  noComponents: ["Health checks are not visible to you.", "您无权查看健康检查。"],
  store: ["Store", "存储后端"],
  runtime: ["Runtime", "运行时"],
  network: ["Network", "网络"],
  containerRuntimes: ["Container runtime", "容器运行时"],
  kubelets: ["kubelet", "kubelet"],
  nodesCount: ["{n} {n|node|nodes}", "{n} 个节点"],
  forbidden: ["Not allowed: this part needs the right to list these objects in all namespaces.", "无权限：此部分需要在所有 namespace 中列出这些对象的权限。"],
  forbiddenIn: ["Not allowed: this part needs the right to list these objects in namespace {namespace}.", "无权限：此部分需要在 namespace {namespace} 中列出这些对象的权限。"],
  forbiddenNodes: ["Not allowed: this part needs the right to list nodes.", "无权限：此部分需要列出 Node 的权限。"],
  healthyCount: ["{n} healthy", "{n} 正常"],
  degradedCount: ["{n} degraded", "{n} 降级"],
  failedCount: ["{n} failed", "{n} 失败"],
  runningCount: ["{n} running", "{n} 运行中"],
  pendingCount: ["{n} pending", "{n} 等待中"],
  doneCount: ["{n} completed", "{n} 已完成"],
  noNodes: ["The cluster has no nodes: pods stay Pending.", "集群没有节点：Pod 将一直 Pending。"],
  addNode: ["Start the cluster with nodes, or join one:", "启动时指定节点，或加入一个节点："],
  noWorkloads: ["Nothing runs yet.", "还没有运行任何工作负载。"],
  cpu: ["CPU", "CPU"],
  memory: ["Memory", "内存"],
  pods: ["Pods", "Pod"],
  requested: ["requested", "已请求"],
  requestedBy: ["requested by {namespace}", "{namespace} 已请求"],
  podsOf: ["of {namespace}", "属于 {namespace}"],
  used: ["used", "已使用"],
  whole: ["Whole cluster", "整个集群"],
  shared: ["{n} nodes on {machines} {machines|machine|machines}, whose CPU and memory they share.", "{n} 个节点位于 {machines} 台机器上，共享其 CPU 和内存。"],
  moreNodes: ["All {n} nodes", "全部 {n} 个节点"],
  times: ["{n} times", "{n} 次"],
  version: ["Kubernetes {version}", "Kubernetes {version}"],
  counting: ["Still counting…", "仍在统计…"],
  platforms: ["Platform", "平台"],
  storeKind: ["Kind", "类型"],
  storeSize: ["Size on disk", "磁盘占用"],
  objects: ["Objects", "对象"],
  watchers: ["Watches", "监听"],
  revision: ["Revision", "版本号"],
  largest: ["Largest", "占用最多"],
  readOnly: ["Writes fail", "写入失败"],
  serviceCidrs: ["Service addresses", "Service 地址段"],
  dns: ["Cluster DNS", "集群 DNS"],
  podCidrs: ["Pod addresses", "Pod 地址段"],
  ofNodes: ["on {n} of {all} {all|node|nodes}", "{all} 个节点中的 {n} 个"],
});

const SHOWN_PROBLEMS = 6;
const SHOWN_NODES = 8;
const SHOWN_EVENTS = 10;

export default function OverviewView({ cluster }: ViewProps) {
  const scope = namespace.value;
  const { overview, error } = useOverview(cluster, scope);
  const version = session.value?.clusters.find((candidate) => candidate.name === cluster)?.version;
  return (
    <div class="page overview">
      <header class="page-header"><h1>{t("title")} {scope && <span class="count">{scope}</span>}</h1>{overview?.isComplete === false && <span class="muted" role="status">{t("counting")}</span>}{version && <span class="muted">{t("version", { version })}</span>}</header>
      {error && <ErrorBox error={error} />}
      {!overview && !error && <Loading rows={10} />}
      {overview && <Cards cluster={cluster} scope={scope} overview={overview} />}
    </div>
  );
}

function useOverview(cluster: string, scope: string): { overview: Overview | null; error: ApiError | null } {
  const [state, setState] = useState<{ overview: Overview | null; error: ApiError | null }>({ overview: null, error: null });
  useEffect(() => stream(cluster).subscribe({ kind: "overview", namespace: scope }, {
    onMessage: (message) => { if (message.overview) setState({ overview: message.overview as Overview, error: null }); },
    onError: (error) => setState((before) => ({ overview: before.overview, error })),
  }), [cluster, scope]);
  return state;
}

function Cards({ cluster, scope, overview }: { cluster: string; scope: string; overview: Overview }) {
  const unread = new Map(overview.unreadable.map((kind) => [kind.resource, kind]));
  return (
    <>
      <Card title={t("problems")} count={overview.problemCount}>
        <Verdict scope={scope} overview={overview} />
        {overview.problems.length > 0 && <Problems cluster={cluster} problems={overview.problems} total={overview.problemCount} />}
        <Unread cluster={cluster} kinds={unreadOf(overview)} />
      </Card>
      <Card title={t("workloads")}><Workloads cluster={cluster} overview={overview} unread={unread} /></Card>
      <Card title={t("nodes")} count={overview.nodes.count} unread={unread.get("nodes")}><Nodes cluster={cluster} scope={scope} nodes={overview.nodes} /></Card>
      <div class="overview-grid">
        <Card title={t("events")} unread={unread.get("events")} isWide>
          {overview.events.length === 0 ? <p class="muted">{t("noEvents")}</p> : <Events cluster={cluster} events={overview.events} />}
        </Card>
        <Card title={t("components")}><Components components={overview.components} /></Card>
        <Card title={t("network")}><NetworkCounts cluster={cluster} scope={scope} /><NetworkPart network={overview.network} nodes={overview.nodes.count} /></Card>
        <Card title={t("runtime")} unread={unread.get("nodes")}>{overview.runtime && <RuntimePart runtime={overview.runtime} />}</Card>
        {overview.store && <Card title={t("store")}><StorePart store={overview.store} /></Card>}
      </div>
    </>
  );
}

interface CardProps {
  readonly title: string;
  readonly count?: number;
  /** The kind that the card needs, where it cannot be read. */
  readonly unread?: UnreadableKind | undefined;
  readonly isWide?: boolean;
  readonly children: ComponentChildren;
}

function Card({ title, count, unread, isWide, children }: CardProps) {
  return (
    <section class={`card ${isWide ? "wide" : ""}`}>
      <h2>{title}{count ? <span class="count">{count.toLocaleString()}</span> : null}</h2>
      {unread ? <p class="muted sentence"><Icon name={unread.forbidden ? "lock" : "error"} />{reasonOf(unread)}</p> : children}
    </section>
  );
}

/** Why a kind could not be read. */
function reasonOf(kind: UnreadableKind): string {
  if (!kind.forbidden) return t("notRead", { kind: kind.resource, message: kind.message });
  if (kind.resource === "nodes") return t("forbiddenNodes");
  return namespace.value ? t("forbiddenIn", { namespace: namespace.value }) : t("forbidden");
}

/** One sentence on whether all is well; none where the problems below say it. */
function Verdict({ scope, overview }: { scope: string; overview: Overview }) {
  switch (verdict(overview)) {
    case "counting": return <Loading rows={1} />;
    case "well": return <p class="all-well"><Icon name="check" />{scope ? t("wellIn", { namespace: scope }) : t("well")}</p>;
    case "partly": return <p>{t("partly")}</p>;
    case "unknown": return <p class="sentence"><Icon name="warning" />{t("unknown")}</p>;
    case "problems": return null;
  }
}

/** What could not be read, and why. */
function Unread({ cluster, kinds }: { cluster: string; kinds: readonly UnreadableKind[] }) {
  const known = discovery(cluster).value.catalog;
  const name = (kind: UnreadableKind): string => known?.all.find((resource) => resource.name === kind.resource)?.kind ?? kind.resource;
  const forbidden = kinds.filter((kind) => kind.forbidden);
  return (
    <>
      {forbidden.length > 0 && <p class="muted sentence"><Icon name="lock" />{t("notAllowed", { kinds: forbidden.map(name).join(", ") })}</p>}
      {kinds.filter((kind) => !kind.forbidden).map((kind) => <p key={kind.resource} class="muted sentence"><Icon name="error" />{t("notRead", { kind: name(kind), message: kind.message })}</p>)}
    </>
  );
}

/** A link to an object where its kind is known, its name otherwise. */
function ObjectLink({ cluster, object }: { cluster: string; object: ObjectReference }) {
  const kinds = discovery(cluster).value.catalog;
  const apiVersion = object.apiVersion || (object.group ? `${object.group}/${object.version ?? ""}` : (object.version ?? "v1"));
  const resource = kinds?.byKind(apiVersion, object.kind);
  const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  return <span><span class="muted">{object.kind}</span> {resource ? <a href={objectHref(cluster, resource, resource.namespaced ? object.namespace : undefined, object.name)}>{name}</a> : name}</span>;
}

function Problems({ cluster, problems, total }: { cluster: string; problems: readonly Problem[]; total: number }) {
  const [areAllShown, setAllShown] = useState(false);
  const shown = areAllShown ? problems : problems.slice(0, SHOWN_PROBLEMS);
  return (
    <>
      <ul class="problems">
        {shown.map((problem) => (
          <li key={`${problem.object.kind}/${problem.object.namespace ?? ""}/${problem.object.name}/${problem.reason}`} class="problem">
            <div class="problem-text">
              <div class="problem-head"><Status text={problem.reason} level={problem.severity === "warning" ? "warning" : "bad"} /><ObjectLink cluster={cluster} object={problem.object} /></div>
              <p>{problem.message}</p>
            </div>
            {problem.kubectl && <KubectlHint command={problem.kubectl} />}
          </li>
        ))}
      </ul>
      {shown.length < problems.length && <div><button type="button" class="chip" onClick={() => setAllShown(true)}>{t("moreProblems", { n: total - shown.length })}</button></div>}
      {areAllShown && total > problems.length && <p class="muted">{t("moreProblems", { n: total - problems.length })}</p>}
    </>
  );
}

interface Share {
  readonly level: Level;
  readonly count: number;
  readonly text: string;
}

function Workloads({ cluster, overview, unread }: { cluster: string; overview: Overview; unread: ReadonlyMap<string, UnreadableKind> }) {
  const kinds = discovery(cluster).value.catalog;
  const { phases } = overview.pods;
  const running = phases["Running"] ?? 0;
  const pending = phases["Pending"] ?? 0;
  const failed = (phases["Failed"] ?? 0) + (phases["Unknown"] ?? 0);
  const done = phases["Succeeded"] ?? 0;
  const tiles = [
    {
      name: "pods", kind: "Pod", count: overview.pods.count, unread: unread.get("pods"),
      shares: [
        { level: "good", count: running, text: t("runningCount", { n: running }) }, { level: "progress", count: pending, text: t("pendingCount", { n: pending }) },
        { level: "bad", count: failed, text: t("failedCount", { n: failed }) }, { level: "neutral", count: done, text: t("doneCount", { n: done }) },
      ] satisfies Share[],
    },
    ...Object.entries(overview.workloads).map(([name, health]) => ({
      name, kind: kinds?.all.find((resource) => resource.name === name)?.kind ?? name, count: health.count, unread: unread.get(name),
      shares: [
        { level: "good", count: health.healthy, text: t("healthyCount", { n: health.healthy }) }, { level: "warning", count: health.degraded, text: t("degradedCount", { n: health.degraded }) },
        { level: "bad", count: health.failed, text: t("failedCount", { n: health.failed }) },
      ] satisfies Share[],
    })),
  ].filter((tile) => tile.count > 0 || tile.unread);
  if (tiles.length === 0) return <p class="muted">{t("noWorkloads")}</p>;
  return (
    <ul class="tiles">
      {tiles.map((tile) => {
        const resource = kinds?.all.find((candidate) => candidate.name === tile.name);
        const content = tile.unread
          ? <><span class="tile-head">{tile.kind}</span><span class="muted" title={reasonOf(tile.unread)}><Icon name={tile.unread.forbidden ? "lock" : "error"} /><span class="visually-hidden">{reasonOf(tile.unread)}</span></span></>
          : (
            <>
              <span class="tile-head">{tile.kind}</span>
              <span class="tile-number">{tile.count.toLocaleString()}</span>
              <HealthBar shares={tile.shares} />
              <span class="muted">{tile.shares.filter((share) => share.count > 0).map((share) => share.text).join(", ")}</span>
            </>
          );
        return <li key={tile.name}>{resource ? <a class="tile" href={listHref(cluster, resource, { namespace: namespace.value })}>{content}</a> : <div class="tile">{content}</div>}</li>;
      })}
    </ul>
  );
}

function HealthBar({ shares }: { shares: readonly Share[] }) {
  const total = shares.reduce((sum, share) => sum + share.count, 0) || 1;
  let start = 0;
  return (
    <svg class="health-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" focusable="false">
      <rect class="neutral" width="100" height="6" />
      {shares.map(({ level, count }) => {
        const x = start;
        start += (count / total) * 100;
        return <rect key={level} class={level} x={x} width={(count / total) * 100} height="6" />;
      })}
    </svg>
  );
}

function Nodes({ cluster, scope, nodes }: { cluster: string; scope: string; nodes: NodesPart }) {
  const resource = discovery(cluster).value.catalog?.find("nodes");
  if (nodes.count === 0) return <><p class="muted">{t("noNodes")} {t("addNode")}</p><KubectlHint command="sampan up --nodes 3 --runtime hollow" /></>;
  return (
    <>
      <ul class="node-grid">
        {nodes.count > 1 && (
          <li class="node whole">
            <div class="node-head">{t("whole")}<Status text={`${nodes.ready}/${nodes.count} Ready`} level={nodes.ready === nodes.count ? "good" : "bad"} /></div>
            <Meters scope={scope} allocatable={nodes.allocatable} requests={nodes.requests} usage={nodes.usage} />
            {nodes.machines < nodes.count && <p class="muted">{t("shared", { n: nodes.count, machines: nodes.machines })}</p>}
          </li>
        )}
        {nodes.items.slice(0, SHOWN_NODES).map((node) => (
          <li key={node.name} class="node">
            <div class="node-head">{resource ? <a href={objectHref(cluster, resource, undefined, node.name)}>{node.name}</a> : node.name}<Status text={nodeStatus(node)} level={nodeLevel(node)} /></div>
            <Meters scope={scope} allocatable={node.allocatable} requests={node.requests} usage={node.usage} />
          </li>
        ))}
      </ul>
      {nodes.count > SHOWN_NODES && resource && <a href={listHref(cluster, resource)}>{t("moreNodes", { n: nodes.count })}</a>}
    </>
  );
}

function nodeStatus(node: NodeSummary): string {
  return [...(node.ready ? [] : ["NotReady"]), ...(node.unschedulable ? ["SchedulingDisabled"] : []), ...node.pressures].join(", ") || "Ready";
}

function nodeLevel(node: NodeSummary): Level {
  return !node.ready ? "bad" : node.unschedulable || node.pressures.length > 0 ? "warning" : "good";
}

/** Use where something is used, with requests as a mark; otherwise requests. With a namespace, requests and pods are those of the namespace. */
function Meters({ scope, allocatable, requests, usage }: { scope: string; allocatable: Amounts; requests: Amounts; usage: Amounts | null }) {
  return (
    <>
      {(["cpu", "memory", "pods"] as const).map((name) => {
        const capacity = allocatable[name] ?? 0;
        const used = usage?.[name] || undefined;
        const requested = requests[name] ?? 0;
        const value = used ?? requested;
        const word = name === "pods" ? (scope && t("podsOf", { namespace: scope })) : used !== undefined ? t("used") : scope ? t("requestedBy", { namespace: scope }) : t("requested");
        return capacity > 0 && (
          <Meter key={name} label={t(name)} value={value / capacity} mark={used === undefined || scope ? undefined : requested / capacity}
            text={`${formatAmount(name, value)} / ${formatAmount(name, capacity)}${word && ` ${word}`}`} />
        );
      })}
    </>
  );
}

function Events({ cluster, events }: { cluster: string; events: readonly OverviewEvent[] }) {
  return (
    <ul class="events">
      {events.slice(0, SHOWN_EVENTS).map((event) => (
        <li key={event.key}>
          <span class="event-age muted"><Age timestamp={event.time} /></span>
          <Status text={event.reason} level="warning" />
          <span class="event-text">{event.message}{event.count > 1 && <span class="muted"> · {t("times", { n: event.count })}</span>}</span>
          <span class="event-source"><ObjectLink cluster={cluster} object={event.object} /></span>
        </li>
      ))}
    </ul>
  );
}

/** Failed checks first; those that pass are folded. */
function Components({ components }: { components: readonly ComponentHealth[] }) {
  if (components.length === 0) return <p class="muted sentence"><Icon name="lock" />{t("noComponents")}</p>;
  const failed = components.filter((component) => !component.healthy);
  const item = (component: ComponentHealth) => <li key={component.name}><Status text={component.name} level={component.healthy ? "good" : "bad"} />{!component.healthy && <span class="muted">{component.message}</span>}</li>;
  return (
    <>
      <ul class="health-list">{failed.map(item)}</ul>
      <details>
        <summary><Status text={failed.length === 0 ? t("allHealthy", { n: components.length }) : t("unhealthy", { n: failed.length, all: components.length })} level={failed.length === 0 ? "good" : "bad"} /></summary>
        <ul class="health-list check-list">{components.filter((component) => component.healthy).map(item)}</ul>
      </details>
    </>
  );
}

function Fact({ title, children }: { title: ComponentChildren; children: ComponentChildren }) {
  return <div><dt>{title}</dt><dd>{children}</dd></div>;
}

function RuntimePart({ runtime }: { runtime: RuntimeFacts }) {
  const counts = (values: Readonly<Record<string, number>>) => Object.entries(values).map(([name, n]) => <div key={name}>{name} <span class="muted">{t("nodesCount", { n })}</span></div>);
  const rows = [["containerRuntimes", runtime.containerRuntimes], ["kubelets", runtime.kubelets], ["platforms", runtime.platforms]] as const;
  const shown = rows.filter(([, values]) => Object.keys(values).length > 0);
  if (shown.length === 0) return <p class="muted">{t("noNodes")}</p>;
  return <dl class="facts">{shown.map(([name, values]) => <Fact key={name} title={t(name)}>{counts(values)}</Fact>)}</dl>;
}

function StorePart({ store }: { store: StoreFacts }) {
  return (
    <>
      {store.writeFailure && <p class="row"><Status text={t("readOnly")} level="bad" />{store.writeFailure}</p>}
      <dl class="facts">
        <Fact title={t("storeKind")}>{store.kind}</Fact>
        <Fact title={t("storeSize")}>{formatBytes(store.sizeBytes)}</Fact>
        <Fact title={t("objects")}>{store.objects.toLocaleString()} <span class="muted">{formatBytes(store.objectBytes)}</span></Fact>
        <Fact title={t("watchers")}>{store.watchers.toLocaleString()}</Fact>
        <Fact title={t("revision")}>{store.revision.toLocaleString()}</Fact>
        <Fact title={t("largest")}>{store.largest.map((row) => <div key={row.resource}>{row.resource} <span class="muted">{row.objects.toLocaleString()} · {formatBytes(row.bytes)}</span></div>)}</Fact>
      </dl>
    </>
  );
}

function NetworkPart({ network, nodes }: { network: NetworkFacts; nodes: number }) {
  const { serviceCidrs = [], dns = [], nodesWithPodCidr } = network;
  return (
    <dl class="facts">
      {serviceCidrs.length > 0 && <Fact title={t("serviceCidrs")}>{serviceCidrs.map((cidr) => <div key={cidr}>{cidr}</div>)}</Fact>}
      {dns.length > 0 && <Fact title={t("dns")}>{dns.map((address) => <div key={address}>{address}</div>)}</Fact>}
      {nodesWithPodCidr !== undefined && nodes > 0 && <Fact title={t("podCidrs")}>{t("ofNodes", { n: nodesWithPodCidr, all: nodes })}</Fact>}
    </dl>
  );
}

const NETWORK_KINDS: readonly (readonly [name: string, group: string])[] = [["services", ""], ["endpointslices", "discovery.k8s.io"], ["ingresses", "networking.k8s.io"], ["networkpolicies", "networking.k8s.io"]];
const COUNT_INTERVAL_MS = 30_000;

/** How many objects the network has, as far as the person may list them: a list of one says how many remain. */
function NetworkCounts({ cluster, scope }: { cluster: string; scope: string }) {
  const kinds = discovery(cluster).value.catalog;
  const [counts, setCounts] = useState<Readonly<Record<string, number | null>>>({});
  useEffect(() => {
    setCounts({});
    const load = (): void => {
      for (const [name, group] of NETWORK_KINDS) {
        const resource = kinds?.find(name, group);
        if (!resource) continue;
        clusterClient(cluster).k8s<ObjectList>(`${listPath(resource, scope)}?limit=1`).then(
          (list) => setCounts((before) => ({ ...before, [name]: (list.items?.length ?? 0) + (list.metadata?.remainingItemCount ?? 0) })),
          (error: unknown) => { if (asApiError(error).code === 403) setCounts((before) => ({ ...before, [name]: null })); },
        );
      }
    };
    load();
    const timer = window.setInterval(() => { if (!document.hidden) load(); }, COUNT_INTERVAL_MS);
    return () => window.clearInterval(timer);
  }, [cluster, kinds, scope]);
  return (
    <dl class="facts">
      {NETWORK_KINDS.map(([name, group]) => {
        const resource = kinds?.find(name, group);
        const count = counts[name];
        return resource && <div key={name}><dt><a href={listHref(cluster, resource, { namespace: scope })}>{resource.kind}</a></dt><dd>{count === null ? <span title={scope ? t("forbiddenIn", { namespace: scope }) : t("forbidden")}><Icon name="lock" /></span> : (count ?? "…")}</dd></div>;
      })}
    </dl>
  );
}
