/** Why a pod is where it is, or why it is nowhere: each node against each plugin of the scheduler. */
import { useState } from "preact/hooks";
import { cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import { at } from "../../app/kubernetes";
import { href } from "../../app/router";
import { formatDuration } from "../../app/time";
import { Checkbox, Empty, ErrorBox, Icon, KubectlHint, Loading, Status } from "../../components";
import type { DetailTabProps } from "..";
import { useLoad } from "../load";
import { type Explanation, matrix, type MatrixRow, type Why } from "./matrix";
import "./schedule.css";

const t = catalog({
  bound: ["Runs on {node}", "运行于 {node}"],
  noNode: ["No node yet", "尚无节点"],
  feasible: ["{feasible} of {count} nodes are feasible now", "当前 {count} 个节点中有 {feasible} 个可行"],
  best: ["best: {node}", "最佳：{node}"],
  decided: ["Decided {ago} ago in attempt {attempt}: {node}", "{ago} 前第 {attempt} 次尝试时选定：{node}"],
  tried: ["Last tried {ago} ago (attempt {attempt}): {message}", "{ago} 前尝试（第 {attempt} 次）：{message}"],
  nominated: ["Nominated to {node}: pods of lower priority are evicted there.", "已提名到 {node}：正在驱逐低优先级 Pod。"],
  queued: ["In the queue “{queue}” for {ago}", "在队列“{queue}”中已 {ago}"],
  gated: ["Held by a scheduling gate: {gate}", "被调度门控阻止：{gate}"],
  retried: ["Tried again when an event concerns {plugins}.", "当事件涉及 {plugins} 时重试。"],
  foreign: ["Only the scheduler “{scheduler}” can place this pod; it cannot be asked here.", "只有调度器“{scheduler}”能放置该 Pod，此处无法查询。"],
  all: ["Show plugins that reject no node and those that score all nodes alike", "显示未拒绝任何节点以及打分相同的插件"],
  node: ["Node", "节点"],
  filters: ["Filters", "过滤"],
  scores: ["Scores (score × weight)", "打分（分数 × 权重）"],
  total: ["Total", "总分"],
  passes: ["passes", "通过"],
  rejected: ["rejected", "拒绝"],
  final: ["Evicting pods would not help.", "驱逐 Pod 也无济于事。"],
  mayHelp: ["Evicting pods may help.", "驱逐 Pod 可能有帮助。"],
  current: ["here", "当前"],
  bestMark: ["best", "最佳"],
  lacks: ["What it lacks", "缺少什么"],
  ended: ["The pod has ended or is being deleted: there is nothing to schedule.", "Pod 已结束或正在删除，无需调度。"],
  unknown: ["No scheduler can be asked", "没有可查询的调度器"],
  skipped: ["Plugins that did not apply: {plugins}", "不适用的插件：{plugins}"],
  again: ["Shown as if it were scheduled again now.", "按现在重新调度的情况显示。"],
  more: ["{n} more nodes are not shown.", "另有 {n} 个节点未显示。"],
});

export default function ScheduleTab({ cluster: clusterName, object }: DetailTabProps) {
  const { namespace = "", name } = object.metadata;
  const [showsAll, setShowsAll] = useState(false);
  const isPending = !at(object, "spec", "nodeName");
  const why = useLoad(() => cluster(clusterName).computed<Why>(`why?${new URLSearchParams({ namespace, name, limit: "200" })}`), [clusterName, namespace, name, at(object, "spec", "nodeName")], isPending ? 3000 : 0);
  if (why.error && !why.value) return <ErrorBox error={why.error} onRetry={why.reload} />;
  if (!why.value) return <Loading />;
  const { scheduling, lacks = [] } = why.value;
  return (
    <div class="stack">
      {lacks.length > 0 && <section class="stack"><h2>{t("lacks")}</h2><ul class="schedule-lacks">{lacks.map((line) => <li key={line}>{line}</li>)}</ul></section>}
      {scheduling ? <Decision cluster={clusterName} explanation={scheduling} showsAll={showsAll} /> : <Empty title={isPending ? t("unknown") : t("ended")} />}
      {scheduling && <Checkbox label={t("all")} checked={showsAll} onChange={setShowsAll} />}
      <KubectlHint command={`sampan why pod/${name} -n ${namespace} -o wide`} />
    </div>
  );
}

function Decision({ cluster: clusterName, explanation, showsAll }: { cluster: string; explanation: Explanation; showsAll: boolean }) {
  const { filters, scores, rows } = matrix(explanation, showsAll);
  const ago = (time: number): string => formatDuration(Math.max(0, explanation.time - time));
  const { decision, waiting } = explanation;
  if (explanation.isFamiliar === false) return <p>{t("foreign", { scheduler: explanation.scheduler })}</p>;
  return (
    <>
      <div class="schedule-summary">
        <Status text={explanation.node ? t("bound", { node: explanation.node }) : t("noNode")} level={explanation.node ? "good" : "progress"} />
        <span>{t("feasible", { feasible: explanation.feasible ?? 0, count: explanation.count ?? 0 })}{explanation.best && `, ${t("best", { node: explanation.best })}`}</span>
        {decision && <span class="muted">{decision.message ? t("tried", { ago: ago(decision.time), attempt: decision.attempt, message: decision.message }) : t("decided", { ago: ago(decision.time), attempt: decision.attempt, node: decision.node ?? "" })}</span>}
        {decision?.nominated && <span>{t("nominated", { node: decision.nominated })}</span>}
        {waiting && <span class="muted">{waiting.gate ? t("gated", { gate: waiting.gate }) : t("queued", { queue: waiting.queue, ago: ago(waiting.since) })}</span>}
        {waiting?.plugins && waiting.plugins.length > 0 && <span class="muted">{t("retried", { plugins: waiting.plugins.join(", ") })}</span>}
        {explanation.gate && <span>{t("gated", { gate: explanation.gate })}</span>}
        {explanation.notes?.map((note) => <span key={note} class="muted">{note}</span>)}
      </div>
      {explanation.node && <p class="muted">{t("again")}</p>}
      <div class="schedule-frame" tabIndex={0} role="group" aria-label={t("filters")}>
        <table class="schedule">
          <thead>
            <tr><th rowSpan={2} scope="col">{t("node")}</th>{filters.length > 0 && <th colSpan={filters.length} scope="colgroup" class="group">{t("filters")}</th>}{scores.length > 0 && <th colSpan={scores.length} scope="colgroup" class="group">{t("scores")}</th>}<th rowSpan={2} scope="col" class="end">{t("total")}</th></tr>
            <tr>{filters.map((plugin) => <th key={plugin} scope="col">{words(plugin)}</th>)}{scores.map((column) => <th key={column.plugin} scope="col">{words(column.plugin)} × {column.weight}</th>)}</tr>
          </thead>
          <tbody>{rows.map((row) => <Row key={row.node} cluster={clusterName} row={row} most={scores.map((column) => column.most)} />)}</tbody>
        </table>
      </div>
      {(explanation.count ?? 0) > rows.length && <p class="muted">{t("more", { n: (explanation.count ?? 0) - rows.length })}</p>}
      {showsAll && explanation.skipped && explanation.skipped.length > 0 && <p class="muted">{t("skipped", { plugins: explanation.skipped.join(", ") })}</p>}
    </>
  );
}

/** `NodeResourcesFit` may break between its words. */
function words(plugin: string) {
  return plugin.split(/(?=[A-Z][a-z])/).flatMap((word, index) => (index ? [<wbr key={index} />, word] : [word]));
}

function Row({ cluster: clusterName, row, most }: { cluster: string; row: MatrixRow; most: readonly number[] }) {
  return (
    <tr class={`${row.fits ? "" : "rejected"} ${row.isBound ? "bound" : ""}`}>
      <th scope="row">
        <a href={href(["c", clusterName, "~v1~nodes", "-", row.node])}>{row.node}</a>
        {row.isBound && <span class="schedule-mark">{t("current")}</span>}
        {row.isBest && !row.isBound && <span class="schedule-mark">{t("bestMark")}</span>}
      </th>
      {row.filters.map((cell, index) => (
        <td key={`f${index}`} class={cell.isRejected ? "no" : "yes"}>
          {cell.isRejected
            ? <><Icon name="close" /><span class="visually-hidden">{t("rejected")}: </span>{cell.reasons.join("; ")}<br /><span class="muted">{cell.isFinal ? t("final") : t("mayHelp")}</span></>
            : <><Icon name="check" /><span class="visually-hidden">{t("passes")}</span></>}
        </td>
      ))}
      {row.scores.map((score, index) => (
        <td key={`s${index}`} class="score">
          {score === null ? "–" : <><span class="schedule-bar" aria-hidden="true" style={{ width: `${most[index] ? (score / most[index]!) * 100 : 0}%` }} /><span>{score}</span></>}
        </td>
      ))}
      <td class="end"><strong>{row.fits ? row.total : "–"}</strong></td>
    </tr>
  );
}
