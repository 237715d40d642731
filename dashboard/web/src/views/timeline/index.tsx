/** A time slider over the last minutes of the cluster: what every component did, and where the pods were. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { asApiError, cluster, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import { href } from "../../app/router";
import { Button, Checkbox, Empty, ErrorBox, Loading, Select } from "../../components";
import type { ViewProps } from "..";
import { formatSeconds } from "../trace/waterfall";
import { byNode, type Bucket, GROUPS, groupOf, histogram, isNoise, knownSince, merged, NO_NODE, type PodPhase, podsAt, type RecorderRecord, UNKNOWN_NODE } from "./replay";
import "./timeline.css";

const t = catalog({
  title: ["Timeline", "时间线"],
  explain: ["Move through the last minutes: what each component did, and where the pods that changed were.", "回放最近几分钟：每个组件做了什么，发生变化的 Pod 在哪里。"],
  begins: ["The flight recorder begins at {time}. What happened before is not known.", "飞行记录器始于 {time}，此前的情况未知。"],
  slider: ["Time", "时间"],
  play: ["Play", "播放"],
  pause: ["Pause", "暂停"],
  live: ["Live", "实时"],
  speed: ["Speed", "速度"],
  window: ["Range", "范围"],
  minutes: ["last {n} minutes", "最近 {n} 分钟"],
  noise: ["Heartbeats, reviews and events too", "包含心跳、鉴权查询和事件"],
  nodes: ["Pods that changed, by node at {time}", "发生变化的 Pod：{time} 时所在节点"],
  since: ["Only pods that were created or changed since {begin} are shown.", "仅显示自 {begin} 起创建或变化的 Pod。"],
  noNode: ["No node yet", "尚无节点"],
  unknownNode: ["Node not in the records", "记录中没有节点"],
  noPods: ["No pod was created or changed from {begin} until this time.", "从 {begin} 到此时间没有 Pod 创建或变化。"],
  records: ["What happened until then", "截至该时刻的操作"],
  empty: ["The flight recorder has no records of these minutes", "飞行记录器没有这段时间的记录"],
  created: ["created", "已创建"],
  bound: ["bound", "已绑定"],
  starting: ["starting", "启动中"],
  running: ["running", "运行中"],
  ready: ["ready", "就绪"],
  ended: ["ended", "已结束"],
  deleted: ["deleted", "已删除"],
  apiserver: ["API server", "API server"],
  scheduler: ["Scheduler", "调度器"],
  kubelet: ["Kubelet", "kubelet"],
  controller: ["Controllers", "控制器"],
  by: ["by {actor}", "由 {actor}"],
});

const POLL_MS = 2000;
const BUCKETS = 120;
const SHOWN = 60;
const FRAME_MS = 100;
const PHASES: readonly PodPhase[] = ["created", "bound", "starting", "running", "ready", "ended", "deleted"];

export default function TimelineView({ cluster: clusterName, query }: ViewProps) {
  const [records, setRecords] = useState<readonly RecorderRecord[] | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [minutes, setMinutes] = useState(Number(query["minutes"]) || 5);
  const [position, setPosition] = useState<number | null>(null);
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(4);
  const [showsNoise, setShowsNoise] = useState(false);
  const [now, setNow] = useState(Date.now() / 1000);
  const [recorderBegin, setRecorderBegin] = useState<number | null>(null);
  const newest = useRef(0);

  useEffect(() => {
    let isCurrent = true;
    newest.current = 0;
    setRecords(null);
    const poll = async (): Promise<void> => {
      if (document.hidden) return;
      try {
        for (let more = true; more && isCurrent; ) {
          const parameters = newest.current ? { after: String(newest.current) } : { since: (Date.now() / 1000 - minutes * 60).toFixed(3) };
          const page = await cluster(clusterName).computed<{ records: RecorderRecord[]; more?: boolean; recorderBegin: number | null }>(`recorder?${new URLSearchParams({ ...parameters, limit: "5000" })}`);
          newest.current = Math.max(newest.current, page.records[page.records.length - 1]?.number ?? 0);
          if (isCurrent) {
            setRecorderBegin(page.recorderBegin);
            setRecords((before) => merged(before ?? [], page.records));
          }
          more = page.more === true && page.records.length > 0;
        }
        if (isCurrent) {
          setNow(Date.now() / 1000);
          setError(null);
        }
      } catch (reason) {
        if (isCurrent) setError(asApiError(reason));
      }
    };
    void poll();
    const timer = window.setInterval(() => void poll(), POLL_MS);
    return () => {
      isCurrent = false;
      window.clearInterval(timer);
    };
  }, [clusterName, minutes]);

  useEffect(() => {
    if (!isPlaying) return undefined;
    const timer = window.setInterval(() => setPosition((before) => {
      const next = (before ?? now - minutes * 60) + (FRAME_MS / 1000) * speed;
      if (next < Date.now() / 1000) return next;
      setPlaying(false);
      return null;
    }), FRAME_MS);
    return () => window.clearInterval(timer);
  }, [isPlaying, speed, minutes]);

  const start = now - minutes * 60;
  const shown = useMemo(() => (records ?? []).filter((record) => showsNoise || !isNoise(record)), [records, showsNoise]);
  const buckets = useMemo(() => histogram(shown, start, now, BUCKETS), [shown, start, now]);
  if (error && !records) return <div class="page"><ErrorBox error={error} /></div>;
  if (!records) return <div class="page"><h1>{t("title")}</h1><Loading /></div>;
  const time = Math.max(start, Math.min(now, position ?? now));
  const nodes = byNode(podsAt(records, time));
  const past = shown.filter((record) => record.time <= time).slice(-SHOWN).reverse();
  const clock = clockTime(time);
  const begin = knownSince(records, start, recorderBegin);
  const toggle = () => {
    if (!isPlaying && position === null) setPosition(start);
    setPlaying(!isPlaying);
  };
  return (
    <div class="page">
      <div class="page-header"><h1>{t("title")}</h1>
        <div class="toolbar">
          <Select label={t("window")} hideLabel value={String(minutes)} options={[1, 5, 15, 60].map((n) => [String(n), t("minutes", { n })])} onChange={(value) => { setMinutes(Number(value)); setPosition(null); }} />
          <Select label={t("speed")} hideLabel value={String(speed)} options={[1, 4, 10, 30].map((n) => [String(n), `${n} ×`])} onChange={(value) => setSpeed(Number(value))} />
        </div>
      </div>
      <p class="muted">{t("explain")}</p>
      {begin > start && <p class="message warning" role="status">{t("begins", { time: clockTime(begin) })}</p>}
      {records.length === 0 && <Empty title={t("empty")} />}
      <section class="timeline-slider">
        <Histogram buckets={buckets} share={(time - start) / (minutes * 60)} />
        <input type="range" aria-label={t("slider")} aria-valuetext={clock} min={start} max={now} step={0.1} value={time}
          onInput={(event) => { setPlaying(false); const value = Number(event.currentTarget.value); setPosition(now - value < 0.5 ? null : value); }} />
        <div class="toolbar">
          <Button look="primary" pressed={isPlaying} onClick={toggle}>{isPlaying ? t("pause") : t("play")}</Button>
          <Button pressed={position === null} onClick={() => { setPlaying(false); setPosition(null); }}>{t("live")}</Button>
          <strong class="timeline-clock">{clock}</strong>
          <Checkbox label={t("noise")} checked={showsNoise} onChange={setShowsNoise} />
          <span class="timeline-legend" aria-hidden="true">{GROUPS.map((group) => <span key={group}><i class={`timeline-mark ${group}`} />{t(group)}</span>)}</span>
        </div>
      </section>
      <section class="stack" aria-labelledby="timeline-nodes">
        <h2 id="timeline-nodes">{t("nodes", { time: clock })}</h2>
        <div class="timeline-legend" aria-hidden="true">{PHASES.map((phase) => <span key={phase}><i class={`timeline-pod ${phase}`} />{t(phase)}</span>)}</div>
        <p class="muted">{nodes.size === 0 ? t("noPods", { begin: clockTime(begin) }) : t("since", { begin: clockTime(begin) })}</p>
        <div class="timeline-nodes">
          {[...nodes].map(([node, pods]) => (
            <div key={node} class="timeline-node">
              <h3>{node === NO_NODE ? t("noNode") : node === UNKNOWN_NODE ? t("unknownNode") : node} <span class="count">{pods.length}</span></h3>
              <div class="timeline-pods">{pods.slice(0, 200).map((pod) => {
                const [namespace = "", name = ""] = pod.key.split("/");
                return <a key={pod.key} class={`timeline-pod ${pod.phase}`} href={href(["c", clusterName, "~v1~pods", namespace, name, "trace"])} title={`${pod.key}: ${t(pod.phase)}`}><span class="visually-hidden">{pod.key}: {t(pod.phase)}</span></a>;
              })}</div>
            </div>
          ))}
        </div>
      </section>
      <section class="stack" aria-labelledby="timeline-records">
        <h2 id="timeline-records">{t("records")}</h2>
        <ol class="timeline-records">
          {past.map((record) => (
            <li key={record.number} class={/^[45]/.test(record.outcome ?? "") ? "failed" : ""}>
              <time>{new Date(record.time * 1000).toISOString().slice(11, 23)}</time>
              <i class={`timeline-mark ${groupOf(record)}`} aria-hidden="true" />
              <span class="timeline-component">{record.component}</span>
              <span><strong>{record.action}</strong> {record.subject}</span>
              <span class="muted">{[record.outcome, record.actor ? t("by", { actor: record.actor }) : "", record.took ? formatSeconds(record.took) : ""].filter(Boolean).join(" · ")}</span>
            </li>
          ))}
        </ol>
      </section>
    </div>
  );
}

function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString(undefined, { hour12: false });
}

function Histogram({ buckets, share }: { buckets: readonly Bucket[]; share: number }) {
  const total = (bucket: Bucket): number => GROUPS.reduce((sum, group) => sum + bucket.counts[group], 0);
  const most = Math.max(1, ...buckets.map(total));
  return (
    <svg class="timeline-histogram" viewBox={`0 0 ${buckets.length} 40`} preserveAspectRatio="none" aria-hidden="true">
      {buckets.map((bucket, index) => {
        let y = 40;
        return GROUPS.map((group) => {
          const height = (Math.sqrt(bucket.counts[group]) / Math.sqrt(most)) * 38 * (bucket.counts[group] ? 1 : 0);
          y -= height;
          return height > 0 && <rect key={`${index}-${group}`} class={`timeline-mark ${group}`} x={index} y={Math.max(0, y)} width={0.85} height={Math.min(40, height)} />;
        });
      })}
      <line class="timeline-cursor" x1={share * buckets.length} x2={share * buckets.length} y1={0} y2={40} vector-effect="non-scaling-stroke" />
    </svg>
  );
}
