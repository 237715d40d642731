/** The whole cluster at a glance, live: problems first with the next step, then nodes, workloads, events, components. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { asApiError, cluster as clusterClient, type ApiError } from "../../app/http";
import { discovery, listHref, objectHref } from "../../app/resources";
import { session } from "../../app/session";
import { stream } from "../../app/stream";
import { Age, ErrorBox, Icon, KubectlHint, Loading, Meter, Status } from "../../components";
import type { ViewProps } from "..";
import type { NodeSummary, ObjectReference, Overview, OverviewEvent, Part, Problem, WorkloadHealth } from "./model";
import { formatAmount, formatBytes } from "./quantities";

const t = catalog({
  title: ["Overview", "概览"],
  problems: ["Problems", "问题"],
  well: ["No problems. Everything that should run is running.", "没有问题，一切运行正常。"],
  nextStep: ["Next step", "下一步"],
  moreProblems: ["{n} more", "另有 {n} 个"],
  nodes: ["Nodes", "节点"],
  workloads: ["Workloads", "工作负载"],
  events: ["Recent events", "最近事件"],
  noEvents: ["No events in the last hour.", "最近一小时没有事件。"],
  components: ["Components", "组件"],
  healthy: ["healthy", "正常"],
  store: ["Store", "存储后端"],
  runtime: ["Runtime", "运行时"],
  network: ["Network", "网络"],
  forbidden: ["You may not see this part. It needs the right to list these objects in all namespaces.", "您无权查看此部分，需要在所有 namespace 中列出这些对象的权限。"],
  healthyCount: ["{n} healthy", "{n} 正常"],
  progressingCount: ["{n} in progress", "{n} 进行中"],
  failedCount: ["{n} failed", "{n} 异常"],
  none: ["none", "无"],
  noNodes: ["The cluster has no nodes: pods stay Pending.", "集群没有节点：Pod 将一直 Pending。"],
  noWorkloads: ["Nothing runs yet.", "还没有运行任何工作负载。"],
  cpu: ["CPU", "CPU"],
  memory: ["Memory", "内存"],
  pods: ["Pods", "Pod"],
  requested: ["requested", "已请求"],
  used: ["used", "已使用"],
  moreNodes: ["All {n} nodes", "全部 {n} 个节点"],
  times: ["{n} times", "{n} 次"],
  version: ["Kubernetes {version}", "Kubernetes {version}"],
});

const SHOWN_PROBLEMS = 8;
const SHOWN_NODES = 12;

export default function OverviewView({ cluster }: ViewProps) {
  const { overview, error } = useOverview(cluster);
  const version = session.value?.clusters.find((candidate) => candidate.name === cluster)?.version;
  return (
    <div class="page overview">
      <header class="page-header"><h1>{t("title")}</h1>{version && <span class="muted">{t("version", { version })}</span>}</header>
      {error && <ErrorBox error={error} />}
      {!overview && !error && <Loading rows={10} />}
      {overview && <Parts cluster={cluster} overview={overview} />}
    </div>
  );
}

function useOverview(cluster: string): { overview: Overview | null; error: ApiError | null } {
  const [state, setState] = useState<{ overview: Overview | null; error: ApiError | null }>({ overview: null, error: null });
  useEffect(() => stream(cluster).subscribe({ kind: "overview" }, {
    onMessage: (message) => { if (message.overview) setState({ overview: message.overview as Overview, error: null }); },
    onError: () => {
      // A server without the subscription still answers the request.
      clusterClient(cluster).computed<Overview>("overview").then((overview) => setState({ overview, error: null }), (error: unknown) => setState({ overview: null, error: asApiError(error) }));
    },
  }), [cluster]);
  return state;
}

function Parts({ cluster, overview }: { cluster: string; overview: Overview }) {
  return (
    <>
      <Card title={t("problems")} part={overview.problems} count={overview.problems.total ?? overview.problems.items?.length ?? 0}>
        {(items) => (items.length === 0 ? <p class="all-well"><Icon name="check" />{t("well")}</p> : <Problems cluster={cluster} problems={items} />)}
      </Card>
      <div class="overview-grid">
        <Card title={t("workloads")} part={overview.workloads}>{(items) => <Workloads cluster={cluster} workloads={items} />}</Card>
        <Card title={t("nodes")} part={overview.nodes} count={overview.nodes.total ?? overview.nodes.items?.length ?? 0}>{(items) => <Nodes cluster={cluster} nodes={items} total={overview.nodes.total ?? items.length} />}</Card>
        <Card title={t("events")} part={overview.events} isWide>{(items) => (items.length === 0 ? <p class="muted">{t("noEvents")}</p> : <Events cluster={cluster} events={items} />)}</Card>
        <Card title={t("components")} part={overview.components}>
          {(items) => <ul class="health-list">{items.map((item) => <li key={item.name}><Status text={item.name} level={item.healthy ? "good" : "bad"} /><span class="muted">{item.message || (item.healthy ? t("healthy") : "")}</span></li>)}</ul>}
        </Card>
        {(["store", "runtime", "network"] as const).map((name) => overview[name] && (
          <Card key={name} title={t(name)} part={{ items: Object.entries(overview[name] ?? {}) }}>
            {(items) => <dl class="facts">{items.map(([key, value]) => <div key={key}><dt>{key}</dt><dd>{typeof value === "number" && /bytes/i.test(key) ? formatBytes(value) : String(value)}</dd></div>)}</dl>}
          </Card>
        ))}
      </div>
    </>
  );
}

function Card<T>({ title, part, count, isWide, children }: { title: string; part: Part<T>; count?: number; isWide?: boolean; children: (items: readonly T[]) => ComponentChildren }) {
  return (
    <section class={`card ${isWide ? "wide" : ""}`}>
      <h2>{title}{count ? <span class="count">{count}</span> : null}</h2>
      {part.forbidden ? <p class="muted row"><Icon name="lock" />{t("forbidden")}</p> : children(part.items ?? [])}
    </section>
  );
}

/** A link to an object where its kind is known, its name otherwise. */
function ObjectLink({ cluster, object, tab }: { cluster: string; object: ObjectReference; tab?: string }) {
  const kinds = discovery(cluster).value.catalog;
  const apiVersion = object.apiVersion ?? (object.group ? `${object.group}/${object.version ?? ""}` : (object.version ?? "v1"));
  const resource = kinds?.byKind(apiVersion, object.kind);
  const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  return <span><span class="muted">{object.kind}</span> {resource ? <a href={objectHref(cluster, resource, object.namespace, object.name, tab ?? "")}>{name}</a> : name}</span>;
}

function Problems({ cluster, problems }: { cluster: string; problems: readonly Problem[] }) {
  const [areAllShown, setAllShown] = useState(false);
  const shown = areAllShown ? problems : problems.slice(0, SHOWN_PROBLEMS);
  return (
    <>
      <ul class="problems">
        {shown.map((problem) => (
          <li key={`${problem.object.kind}/${problem.object.namespace ?? ""}/${problem.object.name}/${problem.reason}`} class="problem">
            <div class="problem-text">
              <div class="problem-head"><Status text={problem.reason} level={problem.severity === "warning" ? "warning" : "bad"} /><ObjectLink cluster={cluster} object={problem.object} />{problem.since && <span class="muted"><Age timestamp={problem.since} /></span>}</div>
              <p>{problem.message}</p>
              {problem.next?.text && <p class="muted">{t("nextStep")}: {problem.next.text}</p>}
            </div>
            {problem.next?.command && <KubectlHint command={problem.next.command} />}
          </li>
        ))}
      </ul>
      {shown.length < problems.length && <button type="button" class="chip" onClick={() => setAllShown(true)}>{t("moreProblems", { n: problems.length - shown.length })}</button>}
    </>
  );
}

function Workloads({ cluster, workloads }: { cluster: string; workloads: readonly WorkloadHealth[] }) {
  const present = workloads.filter((workload) => workload.healthy + workload.progressing + workload.failed > 0);
  if (present.length === 0) return <p class="muted">{t("noWorkloads")}</p>;
  return (
    <div class="tiles">
      {present.map((workload) => {
        const { healthy, progressing, failed } = workload;
        const total = healthy + progressing + failed;
        const words = [t("healthyCount", { n: healthy }), progressing > 0 && t("progressingCount", { n: progressing }), failed > 0 && t("failedCount", { n: failed })].filter(Boolean).join(", ");
        return (
          <a key={workload.kind} class="tile" href={listHref(cluster, { group: workload.group, version: workload.version, name: workload.resource })}>
            <span class="tile-head">{workload.kind}</span>
            <span class="tile-number">{total.toLocaleString()}</span>
            <HealthBar shares={[["good", healthy / total], ["progress", progressing / total], ["bad", failed / total]]} />
            <span class="muted">{words}</span>
          </a>
        );
      })}
    </div>
  );
}

function HealthBar({ shares }: { shares: readonly (readonly [level: string, share: number])[] }) {
  let start = 0;
  return (
    <svg class="health-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" focusable="false">
      {shares.map(([level, share]) => {
        const x = start;
        start += share * 100;
        return <rect key={level} class={level} x={x} width={share * 100} height="6" />;
      })}
    </svg>
  );
}

function Nodes({ cluster, nodes, total }: { cluster: string; nodes: readonly NodeSummary[]; total: number }) {
  const resource = discovery(cluster).value.catalog?.find("nodes");
  if (nodes.length === 0) return <p class="muted">{t("noNodes")}</p>;
  return (
    <>
      <ul class="node-grid">
        {nodes.slice(0, SHOWN_NODES).map((node) => (
          <li key={node.name} class="node">
            <div class="node-head">{resource ? <a href={objectHref(cluster, resource, undefined, node.name)}>{node.name}</a> : node.name}<Status text={node.status} /></div>
            <NodeMeter node={node} name="cpu" label={t("cpu")} />
            <NodeMeter node={node} name="memory" label={t("memory")} />
            <NodeMeter node={node} name="pods" label={t("pods")} />
          </li>
        ))}
      </ul>
      {total > SHOWN_NODES && resource && <a href={listHref(cluster, resource)}>{t("moreNodes", { n: total })}</a>}
    </>
  );
}

/** Use where it is known, with requests as a mark; otherwise requests. */
function NodeMeter({ node, name, label }: { node: NodeSummary; name: "cpu" | "memory" | "pods"; label: string }) {
  const capacity = node.capacity[name];
  const used = node.usage?.[name];
  const requested = node.requests?.[name];
  if (!capacity) return null;
  const value = used ?? requested;
  const word = used === undefined ? t("requested") : t("used");
  return (
    <Meter label={label} value={value === undefined ? undefined : value / capacity} mark={used !== undefined && requested !== undefined ? requested / capacity : undefined}
      text={`${formatAmount(name, value ?? 0)} / ${formatAmount(name, capacity)}${name === "pods" ? "" : ` ${word}`}`} />
  );
}

function Events({ cluster, events }: { cluster: string; events: readonly OverviewEvent[] }) {
  return (
    <ul class="events">
      {events.map((event, index) => (
        <li key={index}>
          <span class="event-age muted"><Age timestamp={event.time} /></span>
          <Status text={event.reason} level={event.type === "Warning" ? "warning" : "neutral"} />
          <span class="event-text">{event.message}{(event.count ?? 1) > 1 && <span class="muted"> · {t("times", { n: event.count ?? 1 })}</span>}</span>
          <span class="event-source"><ObjectLink cluster={cluster} object={event.object} /></span>
        </li>
      ))}
    </ul>
  );
}
