/** CPU, memory, network and disk of pods and nodes, from the metrics API and the kubelet's summary, while the page is open. */
import { useEffect, useState } from "preact/hooks";
import { asApiError, cluster, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import { at, list, record, text, type KubernetesObject } from "../../app/kubernetes";
import type { Resource } from "../../app/resources";
import { Empty, ErrorBox, KubectlHint, Loading } from "../../components";
import type { DetailTabProps } from "..";
import { kubectl } from "../actions/kubectl";
import { formatBytes } from "../files/listing";
import { isPod, selectorText } from "../pods";
import { Chart } from "./Chart";
import { appended, formatCores, parseQuantity, type Point, rates, type Series } from "./series";

const t = catalog({
  cpu: ["CPU (cores)", "CPU（核）"],
  memory: ["Memory (working set)", "内存（工作集）"],
  network: ["Network (bytes per second)", "网络（字节/秒）"],
  disk: ["Disk (bytes used)", "磁盘（已用字节）"],
  received: ["received", "接收"],
  sent: ["sent", "发送"],
  limit: ["limit", "限制"],
  allocatable: ["allocatable", "可分配"],
  none: ["No measurements yet", "暂无测量数据"],
  noneNext: ["The kubelet measures running pods about every 10 seconds.", "kubelet 大约每 10 秒测量一次运行中的 Pod。"],
  note: ["Measured since you opened this page, every 10 seconds.", "自打开本页起，每 10 秒测量一次。"],
});

const INTERVAL_MS = 10_000;
const MOST_POINTS = 180;
const MOST_SERIES = 24;

type Measure = "cpu" | "memory" | "received" | "sent" | "disk";
/** Points by measure and name, kept while the page is open, so that a chart does not start anew with each visit. */
const histories = new Map<string, Map<Measure, Map<string, readonly Point[]>>>();

function note(history: Map<Measure, Map<string, readonly Point[]>>, measure: Measure, name: string, value: unknown, time: number): void {
  if (typeof value !== "number" || !Number.isFinite(value)) return;
  const series = history.get(measure) ?? new Map<string, readonly Point[]>();
  history.set(measure, series);
  if (series.has(name) || series.size < MOST_SERIES) series.set(name, appended(series.get(name) ?? [], { time, value }, MOST_POINTS));
}

function metricsPath(resource: Resource, object: KubernetesObject): string | null {
  const base = "/apis/metrics.k8s.io/v1beta1";
  const namespace = encodeURIComponent(object.metadata.namespace ?? "");
  if (resource.name === "nodes") return `${base}/nodes/${encodeURIComponent(object.metadata.name)}`;
  if (isPod(resource)) return `${base}/namespaces/${namespace}/pods/${encodeURIComponent(object.metadata.name)}`;
  const selector = selectorText(at(object, "spec", "selector"));
  return selector ? `${base}/namespaces/${namespace}/pods?${new URLSearchParams({ labelSelector: selector })}` : null;
}

async function measure(clusterName: string, resource: Resource, object: KubernetesObject, history: Map<Measure, Map<string, readonly Point[]>>): Promise<void> {
  const path = metricsPath(resource, object);
  if (!path) return;
  const metrics = await cluster(clusterName).k8s<Record<string, unknown>>(path);
  const usage = (name: string, item: unknown, timestamp: unknown): void => {
    const time = Date.parse(text(timestamp)) || Date.now();
    note(history, "cpu", name, parseQuantity(text(at(item, "cpu"))), time);
    note(history, "memory", name, parseQuantity(text(at(item, "memory"))), time);
  };
  if (resource.name === "nodes") usage(object.metadata.name, metrics["usage"], metrics["timestamp"]);
  else if (isPod(resource)) for (const container of list(metrics["containers"])) usage(text(at(container, "name")), at(container, "usage"), metrics["timestamp"]);
  else {
    for (const pod of list(metrics["items"])) {
      const total = { cpu: 0, memory: 0 };
      for (const container of list(at(pod, "containers"))) {
        total.cpu += parseQuantity(text(at(container, "usage", "cpu"))) || 0;
        total.memory += parseQuantity(text(at(container, "usage", "memory"))) || 0;
      }
      usage(text(at(pod, "metadata", "name")), { cpu: String(total.cpu), memory: String(total.memory) }, at(pod, "timestamp"));
    }
  }
}

/** The kubelet's summary has network and disk, which the metrics API does not. */
async function measureSummary(clusterName: string, resource: Resource, object: KubernetesObject, history: Map<Measure, Map<string, readonly Point[]>>): Promise<void> {
  const node = resource.name === "nodes" ? object.metadata.name : text(at(object, "spec", "nodeName"));
  if (!node || !(resource.name === "nodes" || isPod(resource))) return;
  const summary = await cluster(clusterName).computed<unknown>(`stats?${new URLSearchParams({ node })}`);
  const { name, namespace } = object.metadata;
  const own = resource.name === "nodes"
    ? record(at(summary, "node"))
    : record(list(at(summary, "pods")).find((pod) => at(pod, "podRef", "name") === name && at(pod, "podRef", "namespace") === namespace));
  const time = Date.parse(text(at(own, "network", "time") ?? at(own, "fs", "time") ?? at(own, "ephemeral-storage", "time"))) || Date.now();
  note(history, "received", t("received"), at(own, "network", "rxBytes"), time);
  note(history, "sent", t("sent"), at(own, "network", "txBytes"), time);
  note(history, "disk", "fs", at(own, "fs", "usedBytes") ?? at(own, "ephemeral-storage", "usedBytes"), time);
  for (const volume of list(at(own, "volume"))) note(history, "disk", text(at(volume, "name")), at(volume, "usedBytes"), time);
}

function limitOf(resource: Resource, object: KubernetesObject, what: "cpu" | "memory"): number | undefined {
  if (resource.name === "nodes") return parseQuantity(text(at(object, "status", "allocatable", what)));
  if (!isPod(resource)) return undefined;
  const limits = list(at(object, "spec", "containers")).map((container) => parseQuantity(text(at(container, "resources", "limits", what))));
  return limits.every(Number.isFinite) && limits.length === 1 ? limits[0] : undefined;
}

export default function ChartsTab({ cluster: clusterName, resource, object }: DetailTabProps) {
  const key = `${clusterName}/${object.metadata.uid ?? object.metadata.name}`;
  const [, redraw] = useState(0);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const history = histories.get(key) ?? new Map<Measure, Map<string, readonly Point[]>>();
    histories.set(key, history);
    if (histories.size > 50) histories.delete(histories.keys().next().value ?? "");
    let isCurrent = true;
    let hasSummary = true;
    const tick = async (): Promise<void> => {
      if (document.hidden) return;
      await measure(clusterName, resource, object, history).then(() => { if (isCurrent) setError(null); }, (reason: unknown) => { if (isCurrent) setError(asApiError(reason)); });
      if (hasSummary) await measureSummary(clusterName, resource, object, history).catch(() => { hasSummary = false; });
      if (isCurrent) redraw((count) => count + 1);
    };
    void tick();
    const timer = window.setInterval(() => void tick(), INTERVAL_MS);
    return () => {
      isCurrent = false;
      window.clearInterval(timer);
    };
  }, [key]);

  const history = histories.get(key);
  const series = (measureName: Measure): Series[] => [...(history?.get(measureName) ?? [])].map(([name, points]) => ({ name, points }));
  const perSecond = (measureName: Measure): Series[] => series(measureName).map((item) => ({ ...item, points: rates(item.points) })).filter((item) => item.points.length > 0);
  const cpu = series("cpu");
  const memory = series("memory");
  const network = [...perSecond("received"), ...perSecond("sent")];
  const disk = series("disk");
  const limitLabel = resource.name === "nodes" ? t("allocatable") : t("limit");
  if (!history || (!cpu.length && !disk.length && !error)) return history ? <Empty title={t("none")}>{t("noneNext")}</Empty> : <Loading />;
  return (
    <div class="stack">
      {error && !cpu.length && (error.code === 404 ? <Empty title={t("none")}>{t("noneNext")}</Empty> : <ErrorBox error={error} />)}
      <div class="charts">
        {cpu.length > 0 && <Chart title={t("cpu")} series={cpu} format={formatCores} limit={limitOf(resource, object, "cpu")} limitLabel={limitLabel} />}
        {memory.length > 0 && <Chart title={t("memory")} series={memory} format={formatBytes} base={1024} limit={limitOf(resource, object, "memory")} limitLabel={limitLabel} />}
        {network.length > 0 && <Chart title={t("network")} series={network} format={formatBytes} base={1024} />}
        {disk.length > 0 && <Chart title={t("disk")} series={disk} format={formatBytes} base={1024} />}
      </div>
      <p class="muted">{t("note")}</p>
      {(resource.name === "nodes" || isPod(resource)) && <KubectlHint command={kubectl.top(resource.name === "nodes" ? "node" : "pod", object.metadata.name, object.metadata.namespace ?? "")} />}
    </div>
  );
}
