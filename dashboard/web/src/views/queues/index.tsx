/** The work queues of the controllers, and what each loop did last. */
import { useState } from "preact/hooks";
import { cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import { Checkbox, Empty, ErrorBox, Loading, Search, Status } from "../../components";
import type { ViewProps } from "..";
import { useLoad } from "../load";
import { formatSeconds } from "../trace/waterfall";
import "./queues.css";

const t = catalog({
  title: ["Controller queues", "控制器队列"],
  explain: ["Each controller compares what should be with what is, one object at a time. Its queue holds the objects that changed.", "每个控制器逐个对象比较期望与实际状态，队列中是发生变化的对象。"],
  search: ["Search controllers and objects", "搜索控制器和对象"],
  idle: ["Also controllers that did nothing", "包含没有动作的控制器"],
  depth: ["queued", "排队"],
  active: ["active", "处理中"],
  delayed: ["delayed", "延迟"],
  reconciles: ["reconciles", "调谐"],
  failures: ["errors", "错误"],
  retries: ["retries", "重试"],
  busy: ["busy", "忙碌"],
  recent: ["Last reconciles", "最近的调谐"],
  writes: ["Last writes", "最近的写入"],
  working: ["working", "工作中"],
  quiet: ["quiet", "空闲"],
  failing: ["failing", "出错"],
  none: ["No controller matches", "没有匹配的控制器"],
  notLeader: ["Another process is the leader and runs the controllers.", "另一个进程是 leader 并运行控制器。"],
});

export interface Controller {
  readonly name: string;
  readonly depth?: number;
  readonly active?: number;
  readonly delayed?: number;
  readonly retries?: number;
  readonly reconciles?: number;
  readonly errors?: number;
  readonly busySeconds?: number;
  readonly recent?: readonly { readonly time: number; readonly key: string; readonly tookSeconds: number; readonly error?: string }[];
  readonly lastWrites?: readonly { readonly number: number; readonly time: number; readonly action: string; readonly subject: string; readonly outcome: string }[];
}

export function controllerState(controller: Controller): "failing" | "working" | "quiet" {
  if (controller.recent?.[0]?.error) return "failing";
  return (controller.depth ?? 0) + (controller.active ?? 0) > 0 ? "working" : "quiet";
}

/** Failing first, then those with work, then by how much they did. */
export function sortControllers(controllers: readonly Controller[]): Controller[] {
  const rank = { failing: 0, working: 1, quiet: 2 };
  return controllers.toSorted((a, b) => rank[controllerState(a)] - rank[controllerState(b)] || (b.recent?.[0]?.time ?? 0) - (a.recent?.[0]?.time ?? 0) || (a.name < b.name ? -1 : 1));
}

const POLL_MS = 2000;
const LEVELS = { failing: "bad", working: "progress", quiet: "neutral" } as const;

export default function QueuesView({ cluster: clusterName }: ViewProps) {
  const [search, setSearch] = useState("");
  const [showsIdle, setShowsIdle] = useState(false);
  const queues = useLoad(() => cluster(clusterName).computed<{ controllers?: readonly Controller[] }>("queues"), [clusterName], POLL_MS);
  const needle = search.toLowerCase();
  const matches = (controller: Controller): boolean => {
    if (!showsIdle && !search && !(controller.reconciles ?? 0)) return false;
    return !needle || controller.name.toLowerCase().includes(needle) || (controller.recent ?? []).some((item) => item.key.toLowerCase().includes(needle));
  };
  const shown = sortControllers(queues.value?.controllers ?? []).filter(matches);
  return (
    <div class="page">
      <h1>{t("title")}</h1>
      <p class="muted">{t("explain")}</p>
      <div class="toolbar"><Search label={t("search")} value={search} onInput={setSearch} /><Checkbox label={t("idle")} checked={showsIdle} onChange={setShowsIdle} /></div>
      {queues.error && <ErrorBox error={queues.error} onRetry={queues.reload} />}
      {!queues.value && !queues.error && <Loading />}
      {queues.value && shown.length === 0 && <Empty title={t("none")}>{(queues.value.controllers ?? []).length === 0 ? t("notLeader") : ""}</Empty>}
      <div class="queues">{shown.map((controller) => <ControllerCard key={controller.name} controller={controller} />)}</div>
    </div>
  );
}

function ControllerCard({ controller }: { controller: Controller }) {
  const state = controllerState(controller);
  const numbers: readonly (readonly [string, number | string])[] = [
    [t("depth"), controller.depth ?? 0], [t("active"), controller.active ?? 0], [t("delayed"), controller.delayed ?? 0], [t("reconciles"), controller.reconciles ?? 0],
    [t("failures"), controller.errors ?? 0], [t("retries"), controller.retries ?? 0], [t("busy"), formatSeconds(controller.busySeconds ?? 0)],
  ];
  return (
    <section class="queue" aria-label={controller.name}>
      <div class="row"><h2>{controller.name}</h2><Status text={t(state)} level={LEVELS[state]} /></div>
      <dl class="queue-numbers">{numbers.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {(controller.recent ?? []).length > 0 && (
        <details open={state === "failing"}>
          <summary>{t("recent")}</summary>
          <ol>{(controller.recent ?? []).map((item, index) => <li key={index} class={item.error ? "failed" : ""}><time>{clock(item.time)}</time> <code>{item.key}</code> <span class="muted">{formatSeconds(item.tookSeconds)}</span>{item.error && <p>{item.error}</p>}</li>)}</ol>
        </details>
      )}
      {(controller.lastWrites ?? []).length > 0 && (
        <details>
          <summary>{t("writes")}</summary>
          <ol>{(controller.lastWrites ?? []).map((item) => <li key={item.number}><time>{clock(item.time)}</time> {item.action} <code>{item.subject}</code> <span class="muted">{item.outcome}</span></li>)}</ol>
        </details>
      )}
    </section>
  );
}

function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString(undefined, { hour12: false });
}
