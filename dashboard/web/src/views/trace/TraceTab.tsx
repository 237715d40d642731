/** The birth of a pod: every step from the request to Ready, with times from the flight recorder. */
import { useState } from "preact/hooks";
import { cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import { at, list } from "../../app/kubernetes";
import { Checkbox, Empty, ErrorBox, KubectlHint, Loading } from "../../components";
import { formatTime } from "../../app/time";
import type { DetailTabProps } from "..";
import { useLoad } from "../load";
import { formatSeconds, fromBirth, hasBirth, type Lane, type Trace, waterfall, type WaterfallRow } from "./waterfall";
import "./trace.css";

const t = catalog({
  running: ["Running after {time}", "{time} 后 Running"],
  ready: ["Ready after {time}", "{time} 后 Ready"],
  notYet: ["Not running yet", "尚未运行"],
  slowest: ["Most of the time: {steps}", "耗时最多：{steps}"],
  explain: ["Explain the steps", "解释各步骤"],
  whole: ["Also what happened after it was ready", "也显示就绪之后的事件"],
  step: ["Step", "步骤"],
  component: ["Component", "组件"],
  started: ["At", "开始"],
  took: ["Took", "耗时"],
  chart: ["Time", "时间"],
  none: ["The flight recorder has no records of this pod", "飞行记录器没有该 Pod 的记录"],
  noneNext: ["It keeps the last 20,000 actions; this pod may be older.", "它保留最近 20000 条操作，该 Pod 可能更早。"],
  begins: ["The recorder begins at {time}.", "记录器始于 {time}。"],
  later: ["The creation of this pod ({created}) is not in the flight recorder, which begins at {time}. The steps below happened later, so how long the pod took to run is not known.", "飞行记录器始于 {time}，其中没有该 Pod 的创建（{created}）。以下步骤发生在之后，因此无法得知 Pod 启动耗时。"],
  sinceFirst: ["Since the first record", "自首条记录起"],
  critical: ["on the critical path", "位于关键路径"],
  waitFor: ["wait for {component}", "等待 {component}"],
  apiserver: ["API server", "API server"],
  scheduler: ["Scheduler", "调度器"],
  kubelet: ["Kubelet", "kubelet"],
  controller: ["Controllers", "控制器"],
  wait: ["Waiting", "等待"],
  network: ["Network", "网络"],
  reachable: ["Reachable by its services after {time}", "{time} 后可通过 Service 访问"],
  parts: ["Each admission plugin", "每个准入插件"],
  queue: ["The pod waits in the scheduling queue until it is its turn; a pod that fits no node waits there too.", "Pod 在调度队列中等待轮到它；没有合适节点的 Pod 也在此等待。"],
  connect: ["The pod gets its address and its network policies before its first container starts.", "在第一个容器启动之前，Pod 获得地址和网络策略。"],
  probe: ["The kubelet asks the container; the pod is ready once its readiness probes pass.", "kubelet 探测容器；就绪探针通过后 Pod 才就绪。"],
  webhook: ["A webhook of the cluster was asked about the pod, and may have changed it.", "集群的 webhook 被询问，并可能修改了 Pod。"],
  s12: ["The controller adds the address of the ready pod to the EndpointSlices of its services.", "控制器将就绪 Pod 的地址加入其 Service 的 EndpointSlice。"],
  s13: ["kube-proxy of the node has the address in its packet rules: connections to the service reach the pod.", "节点的 kube-proxy 已将地址写入规则：到 Service 的连接可到达该 Pod。"],
  s14: ["The name of the service leads to the pod: by its address for a headless service, by the cluster IP otherwise.", "Service 的域名指向该 Pod：headless Service 用 Pod 地址，否则用集群 IP。"],
  s1: ["The API server authenticates, authorizes and admits the request, sets defaults, validates the pod and stores it.", "API server 对请求进行认证、授权、准入，设置默认值，校验并保存 Pod。"],
  s2: ["The scheduler filters and scores the nodes and chooses one.", "调度器过滤节点、打分并选择一个。"],
  s3: ["The scheduler writes the name of the node to the pod.", "调度器将节点名写入 Pod。"],
  s4: ["The kubelet of the node sees the pod and checks that it can run it.", "节点的 kubelet 看到 Pod 并检查能否运行。"],
  s5: ["The kernel gets groups that account for and limit CPU and memory of the pod.", "内核为 Pod 创建用于统计和限制 CPU、内存的 cgroup。"],
  s6: ["Directories for volumes, logs and plugins are made on the node.", "在节点上创建卷、日志和插件的目录。"],
  s7: ["The volumes are attached and mounted: tokens, ConfigMaps, Secrets, disks.", "挂载卷：令牌、ConfigMap、Secret、磁盘。"],
  s8: ["The runtime makes the sandbox: namespaces and the network of the pod.", "运行时创建沙箱：命名空间和 Pod 网络。"],
  s9: ["The image is pulled, unless the node has it.", "拉取镜像，除非节点已有。"],
  s10: ["The runtime starts the process of the container.", "运行时启动容器进程。"],
  s11: ["The kubelet tells the API server what it sees; services send traffic once the pod is ready.", "kubelet 向 API server 报告状态；Pod 就绪后服务开始转发流量。"],
});

const STEP_TEXTS = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14"] as const;
const LANES: readonly Lane[] = ["apiserver", "scheduler", "kubelet", "controller", "network", "wait"];
const POLL_MS = 1500;

export default function TraceTab({ cluster: clusterName, object }: DetailTabProps) {
  const { namespace = "", name } = object.metadata;
  const [isWhole, setWhole] = useState(false);
  const [isExplained, setExplained] = useState(false);
  const [hasAllParts, setAllParts] = useState(false);
  const isReady = list(at(object, "status", "conditions")).some((condition) => at(condition, "type") === "Ready" && at(condition, "status") === "True");
  const trace = useLoad(() => cluster(clusterName).computed<Trace>(`trace?${new URLSearchParams({ namespace, name })}`), [clusterName, namespace, name, object.metadata.uid], isReady ? 15_000 : POLL_MS);
  const command = `sampan trace pod/${name} -n ${namespace}`;
  if (trace.error && !trace.value) return <ErrorBox error={trace.error} onRetry={trace.reload} />;
  if (!trace.value) return <Loading />;
  const born = fromBirth(trace.value);
  const rows = waterfall(born, isWhole, hasAllParts);
  const begin = trace.value.recorderBegin ? formatTime(trace.value.recorderBegin * 1000) : "–";
  if (!rows.length) return <Empty title={t("none")}>{t("noneNext")} {trace.value.recorderBegin && t("begins", { time: begin })}</Empty>;
  const { runningAfterSeconds, readyAfterSeconds, publishedAfterSeconds } = born;
  const slowest = rows.filter((row) => row.share > 0.05).toSorted((a, b) => b.share - a.share).slice(0, 3);
  return (
    <div class="stack">
      {!hasBirth(trace.value) && <p class="message warning" role="status">{t("later", { time: begin, created: formatTime(Date.parse(object.metadata.creationTimestamp ?? "")) })}</p>}
      {hasBirth(trace.value) && <div class="row trace-summary">
        <strong>{runningAfterSeconds === undefined ? t("notYet") : t("running", { time: formatSeconds(runningAfterSeconds) })}</strong>
        {readyAfterSeconds !== undefined && <strong>{t("ready", { time: formatSeconds(readyAfterSeconds) })}</strong>}
        {publishedAfterSeconds !== undefined && <strong>{t("reachable", { time: formatSeconds(publishedAfterSeconds) })}</strong>}
        {slowest.length > 0 && <span class="muted">{t("slowest", { steps: slowest.map((row) => `${stepName(row)} ${Math.round(row.share * 100)} %`).join(", ") })}</span>}
      </div>}
      <div class="toolbar">
        <div class="row trace-legend" aria-hidden="true">{LANES.map((lane) => <span key={lane}><i class={`trace-mark ${lane}`} />{t(lane)}</span>)}</div>
        <Checkbox label={t("explain")} checked={isExplained} onChange={setExplained} />
        <Checkbox label={t("parts")} checked={hasAllParts} onChange={setAllParts} />
        <Checkbox label={t("whole")} checked={isWhole} onChange={setWhole} />
      </div>
      <div class="trace-frame" tabIndex={0} role="group" aria-label={t("chart")}>
        <table class="trace">
          <thead><tr><th scope="col">{t("step")}</th><th scope="col">{t("component")}</th><th scope="col" class="end" title={hasBirth(trace.value) ? undefined : t("sinceFirst")}>{t("started")}</th><th scope="col" class="end">{t("took")}</th><th scope="col" class="trace-chart">{t("chart")}</th></tr></thead>
          <tbody>{rows.map((row, index) => <Row key={index} row={row} isExplained={isExplained} />)}</tbody>
        </table>
      </div>
      <KubectlHint command={command} />
    </div>
  );
}

function stepName({ step }: WaterfallRow): string {
  return step.name === "wait" ? t("waitFor", { component: step.component }) : step.name;
}

function helpOf({ step }: WaterfallRow): Parameters<typeof t>[0] | undefined {
  if (step.number) return STEP_TEXTS[step.number - 1];
  if (step.name.startsWith("webhook ")) return "webhook";
  if (step.name.endsWith(" probe")) return "probe";
  return { "wait in the queue": "queue", "connect the network": "connect" }[step.name] as "queue" | "connect" | undefined;
}

function Row({ row, isExplained }: { row: WaterfallRow; isExplained: boolean }) {
  const { step } = row;
  const help = helpOf(row);
  return (
    <tr class={step.isOnCriticalPath ? "critical" : row.isPart ? "part" : ""}>
      <th scope="row" title={help ? t(help) : undefined}>
        {stepName(row)}
        {isExplained && help && <p class="trace-help">{t(help)}</p>}
        {step.detail && <span class="trace-detail">{step.detail}</span>}
      </th>
      <td>{step.component}</td>
      <td class="end">{formatSeconds(step.startSeconds)}</td>
      <td class="end">{formatSeconds(step.durationSeconds)}{step.isOnCriticalPath && <span class="visually-hidden"> {t("critical")}</span>}</td>
      <td class="trace-chart"><div class="trace-track"><div class={`trace-bar ${row.lane} ${step.isOnCriticalPath ? "critical" : ""}`} style={{ left: `${row.left}%`, width: `${row.width}%` }} /></div></td>
    </tr>
  );
}
