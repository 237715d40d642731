/** Logs of all pods and containers of an object, merged by time. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { at } from "../../app/kubernetes";
import { setQuery } from "../../app/router";
import { Button, Checkbox, Empty, ErrorBox, KubectlHint, Loading, Search, Select } from "../../components";
import type { DetailTabProps } from "..";
import { kubectl } from "../actions/kubectl";
import { safeFilename } from "../files/listing";
import { saveFile } from "../load";
import { containersOf, isPod, selectorText, usePods } from "../pods";
import { LogReader } from "./follow";
import { filterLines, LEVELS, type Level, type LogSource, logText, MOST_LINES } from "./lines";
import { LogLines } from "./LogLines";
import "./logs.css";

const t = catalog({
  follow: ["Follow", "跟随"],
  previous: ["Previous containers", "上一个容器"],
  times: ["Times", "时间"],
  wrap: ["Wrap lines", "自动换行"],
  search: ["Search, or /regular expression/", "搜索，或 /正则表达式/"],
  since: ["Since", "起始"],
  tail: ["last 1,000 lines", "最近 1000 行"],
  minutes: ["last {n} minutes", "最近 {n} 分钟"],
  hour: ["last hour", "最近一小时"],
  all: ["everything", "全部"],
  download: ["Download", "下载"],
  clear: ["Clear", "清空"],
  levels: ["Levels", "级别"],
  error: ["Error", "错误"],
  warning: ["Warning", "警告"],
  info: ["Info", "信息"],
  debug: ["Debug", "调试"],
  none: ["Other", "其他"],
  containers: ["Containers", "容器"],
  counts: ["{shown} of {all} lines", "{shown}/{all} 行"],
  dropped: ["{n} older lines left the buffer of {most}", "{n} 行较早的日志已移出缓冲区（{most} 行）"],
  noPods: ["There are no pods to read logs from", "没有可读取日志的 Pod"],
  tooMany: ["Only the first {n} containers are read.", "仅读取前 {n} 个容器。"],
  waiting: ["No lines yet.", "暂无日志。"],
});

const MOST_SOURCES = 30;
const ALL = 1_000_000;

export default function LogsTab({ cluster, resource, object, query }: DetailTabProps) {
  const pods = usePods(cluster, resource, object);
  const [isFollowing, setFollowing] = useState(true);
  const [showTimes, setTimes] = useState(false);
  const [isWrapped, setWrapped] = useState(false);
  const isPrevious = query["previous"] === "true";
  const since = query["since"] ?? "tail";
  const search = query["q"] ?? "";
  const levels = useMemo(() => readLevels(query["levels"]), [query["levels"]]);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [, redraw] = useState(0);
  const reader = useRef<LogReader | null>(null);

  const candidates = useMemo(() => (pods.objects ?? []).flatMap((pod) => containersOf(pod).map(({ name }): LogSource =>
    ({ namespace: pod.metadata.namespace ?? "", pod: pod.metadata.name, container: name }))), [pods.objects]);
  const only = query["container"];
  const sources = candidates.filter((source) => !hidden.has(sourceKey(source)) && (!only || source.container === only)).slice(0, MOST_SOURCES);
  const key = JSON.stringify([sources, isFollowing, isPrevious, since]);

  useEffect(() => {
    if (!sources.length) return undefined;
    const current = new LogReader(cluster, sources, {
      isFollowing, isPrevious,
      tailLines: since === "tail" ? 1000 : since === "all" ? MOST_LINES : ALL,
      sinceSeconds: /^\d+$/.test(since) ? Number(since) : 0,
    }, () => redraw((tick) => tick + 1));
    reader.current = current;
    redraw((tick) => tick + 1);
    return () => current.close();
  }, [key]);

  if (pods.error) return <ErrorBox error={pods.error} />;
  if (!pods.objects) return <Loading />;
  if (!candidates.length) return <Empty title={t("noPods")} />;
  const buffer = reader.current?.buffer;
  const lines = buffer ? filterLines(buffer.lines, { search, levels, sources: null }) : [];
  const toggleLevel = (level: Level) => {
    const next = toggled(levels, level);
    setQuery({ levels: next.size === LEVELS.length ? "" : [...next].join(",") || "-" });
  };
  const errors = [...(reader.current?.errors ?? [])];
  const name = object.metadata.name;
  const namespace = object.metadata.namespace ?? "";
  const selector = isPod(resource) ? "" : (selectorText(at(object, "spec", "selector")) ?? "");

  return (
    <div class="logs">
      <div class="toolbar">
        <Search label={t("search")} value={search} onInput={(value) => setQuery({ q: value })} />
        <Select label={t("since")} hideLabel value={since} onChange={(value) => setQuery({ since: value === "tail" ? "" : value })}
          options={[["tail", t("tail")], ["300", t("minutes", { n: 5 })], ["900", t("minutes", { n: 15 })], ["3600", t("hour")], ["all", t("all")]]} />
        <Checkbox label={t("follow")} checked={isFollowing} onChange={setFollowing} />
        <Checkbox label={t("times")} checked={showTimes} onChange={setTimes} />
        <Checkbox label={t("wrap")} checked={isWrapped} onChange={setWrapped} />
        <Checkbox label={t("previous")} checked={isPrevious} onChange={(checked) => setQuery({ previous: checked ? "true" : "" })} />
        <Button onClick={() => { buffer?.clear(); redraw((tick) => tick + 1); }}>{t("clear")}</Button>
        <Button onClick={() => saveFile(safeFilename(`${name}.log`), logText(lines, sources, showTimes), "text/plain")}>{t("download")}</Button>
      </div>
      <div class="toolbar" role="group" aria-label={t("levels")}>
        {LEVELS.map((level) => <Button key={level} class={`log-level ${level}`} pressed={levels.has(level)} onClick={() => toggleLevel(level)}>{t(level)}</Button>)}
        {candidates.length > 1 && (
          <details class="log-containers">
            <summary>{t("containers")} ({sources.length}/{candidates.length})</summary>
            <ul>
              {candidates.map((source) => (
                <li key={sourceKey(source)}>
                  <Checkbox label={`${source.pod}/${source.container}`} checked={!hidden.has(sourceKey(source))} onChange={() => setHidden(toggled(hidden, sourceKey(source)))} />
                </li>
              ))}
            </ul>
          </details>
        )}
        <span class="muted">{t("counts", { shown: lines.length, all: buffer?.lines.length ?? 0 })}</span>
        {buffer && buffer.dropped > 0 && <span class="muted">{t("dropped", { n: buffer.dropped, most: MOST_LINES })}</span>}
        {candidates.length - hidden.size > MOST_SOURCES && <span class="muted">{t("tooMany", { n: MOST_SOURCES })}</span>}
      </div>
      {errors.slice(0, 3).map(([index, error]) => <p key={index} class="field-error">{sources[index]?.pod}/{sources[index]?.container}: {error.message}</p>)}
      {lines.length === 0 && <p class="muted" role="status">{t("waiting")}</p>}
      <LogLines lines={lines} sources={sources} showTimes={showTimes} isWrapped={isWrapped} search={search} />
      <KubectlHint command={kubectl.logs(namespace, [name], {
        follow: isFollowing, previous: isPrevious, ...(only ? { container: only } : {}), ...(/^\d+$/.test(since) ? { since: `${since}s` } : {}), ...(selector ? { selector } : {}),
      })} />
    </div>
  );
}

/** The levels that the address names; all of them if it names none. */
export function readLevels(text: string | undefined): ReadonlySet<Level> {
  const named = text?.split(",");
  return new Set(LEVELS.filter((level) => !named || named.includes(level)));
}

function sourceKey(source: LogSource): string {
  return `${source.pod}/${source.container}`;
}

function toggled<T>(set: ReadonlySet<T>, item: T): ReadonlySet<T> {
  const next = new Set(set);
  if (!next.delete(item)) next.add(item);
  return next;
}
