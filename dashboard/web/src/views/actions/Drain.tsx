/** Drains a node: cordons it and evicts its pods. Refusals by a PodDisruptionBudget are shown and tried again. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, asApiError, cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import type { KubernetesObject, ObjectList } from "../../app/kubernetes";
import { objectPath } from "../../app/resources";
import { Button, Checkbox, Dialog, ErrorBox, Icon, KubectlHint, Loading, Meter, Status, type Level } from "../../components";
import type { ActionProps } from "..";
import { useLoad } from "../load";
import { type BlockReason, drainProgress, type EvictionState, type KeptReason, planDrain, type PodEviction } from "./evictions";
import { kubectl } from "./kubectl";
import { sendPatch } from "./PatchDialog";
import "./actions.css";

const t = catalog({
  title: ["Drain {name}", "排空 {name}"],
  explain: ["The node is cordoned, then these pods are evicted. Their controllers create them again on other nodes.", "节点将停止调度，随后驱逐以下 Pod；其控制器会在其他节点重新创建。"],
  emptyDir: ["Evict pods with emptyDir volumes: their data is lost", "驱逐使用 emptyDir 卷的 Pod：数据将丢失"],
  force: ["Evict pods without a controller: they are not created again", "驱逐没有控制器的 Pod：不会被重新创建"],
  start: ["Drain", "排空"],
  stop: ["Stop", "停止"],
  close: ["Close", "关闭"],
  pods: ["Pods to evict", "将驱逐的 Pod"],
  none: ["There is nothing to evict.", "没有需要驱逐的 Pod。"],
  progress: ["{gone} of {all} gone", "已驱逐 {gone}/{all}"],
  kept: ["{n} stay", "保留 {n} 个"],
  daemonSet: ["belongs to a DaemonSet", "属于 DaemonSet"],
  mirror: ["static pod", "静态 Pod"],
  finished: ["finished", "已结束"],
  blocked: ["These pods block the drain: allow above what happens to them.", "以下 Pod 阻止排空：请在上方允许相应操作。"],
  unmanaged: ["has no controller", "没有控制器"],
  hasEmptyDir: ["has an emptyDir volume", "使用 emptyDir 卷"],
  waiting: ["waiting", "等待"],
  evicting: ["evicting", "驱逐中"],
  refused: ["refused, tried again", "被拒绝，将重试"],
  terminating: ["terminating", "终止中"],
  gone: ["gone", "已离开"],
  failed: ["failed", "失败"],
});

const RETRY_MS = 3000;
const POLL_MS = 1000;
const REFRESH_MS = 5000;
const LEVELS: Readonly<Record<EvictionState, Level>> = {
  waiting: "neutral", evicting: "progress", refused: "warning", terminating: "progress", gone: "good", failed: "bad",
};

const sleep = (ms: number): Promise<void> => new Promise((resolve) => window.setTimeout(resolve, ms));

function podsOf(clusterName: string, node: string): Promise<readonly KubernetesObject[]> {
  const query = new URLSearchParams({ fieldSelector: `spec.nodeName=${node}` });
  return cluster(clusterName).k8s<ObjectList>(`/api/v1/pods?${query}`).then((pods) => pods.items ?? []);
}

export default function Drain({ cluster: clusterName, resource, targets, onClose }: ActionProps) {
  const node = targets[0]?.name ?? "";
  const [deletesEmptyDir, setDeletesEmptyDir] = useState(false);
  const [force, setForce] = useState(false);
  const [running, setRunning] = useState<readonly PodEviction[] | null>(null);
  const pods = useLoad(() => podsOf(clusterName, node), [clusterName, node], running ? 0 : REFRESH_MS);
  const [isDone, setDone] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const isStopped = useRef(false);
  useEffect(() => () => { isStopped.current = true; }, []);
  const plan = useMemo(() => planDrain(pods.value ?? [], { deletesEmptyDir, force }), [pods.value, deletesEmptyDir, force]);

  const run = async () => {
    isStopped.current = false;
    setFailure(null);
    const evictions = [...plan.evictions];
    const set = (index: number, state: EvictionState, message = ""): void => {
      evictions[index] = { ...evictions[index]!, state, message };
      setRunning([...evictions]);
    };
    setRunning([...evictions]);
    try {
      await sendPatch(clusterName, objectPath(resource, "", node), { mediaType: "application/merge-patch+json", body: { spec: { unschedulable: true } } }, false);
    } catch (reason) {
      setFailure(asApiError(reason));
      setRunning(null);
      return;
    }
    await Promise.all(evictions.map((_eviction, index) => evictUntilGone(index)));
    setDone(!isStopped.current);

    async function evictUntilGone(index: number): Promise<void> {
      const { namespace, name, uid } = evictions[index]!;
      const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`;
      while (!isStopped.current) {
        set(index, "evicting");
        try {
          await cluster(clusterName).k8s(`${path}/eviction`, {
            method: "POST", body: { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace }, deleteOptions: { preconditions: { uid } } },
          });
          set(index, "terminating");
          break;
        } catch (reason) {
          const error = asApiError(reason);
          if (error.code === 404 || error.code === 409) return set(index, "gone");
          if (error.code !== 429) return set(index, "failed", error.message);
          const causes = error.status.details?.causes?.map((cause) => cause.message).join(" ") ?? "";
          set(index, "refused", causes || error.message);
          await sleep(RETRY_MS);
        }
      }
      while (!isStopped.current) {
        await sleep(POLL_MS);
        try {
          const pod = await cluster(clusterName).k8s<KubernetesObject>(path);
          if (pod.metadata.uid !== uid) return set(index, "gone");
        } catch (reason) {
          if (reason instanceof ApiError && reason.code === 404) return set(index, "gone");
        }
      }
    }
  };

  const shown = running ?? plan.evictions;
  const { gone, share } = drainProgress(shown);
  const stop = () => {
    isStopped.current = true;
    setRunning(null);
    pods.reload();
  };
  return (
    <Dialog title={t("title", { name: node })} size="large" onClose={onClose} footer={
      running && !isDone
        ? <Button onClick={stop}>{t("stop")}</Button>
        : isDone ? <Button look="primary" onClick={onClose}>{t("close")}</Button>
          : <Button look="danger" disabled={!pods.value || plan.blocked.length > 0} onClick={() => void run()}>{t("start")}</Button>
    }>
      <p>{t("explain")}</p>
      <Checkbox label={t("emptyDir")} checked={deletesEmptyDir} disabled={running !== null} onChange={setDeletesEmptyDir} />
      <Checkbox label={t("force")} checked={force} disabled={running !== null} onChange={setForce} />
      {pods.error && <ErrorBox error={pods.error} onRetry={pods.reload} />}
      {failure && <ErrorBox error={failure} />}
      {!pods.value && !pods.error && <Loading rows={3} />}
      {running && <Meter isProgress label={t("pods")} value={share} text={t("progress", { gone, all: shown.length })} />}
      {pods.value && (
        <section class="stack">
          <h3>{t("pods")} ({shown.length})</h3>
          {shown.length === 0 && <p class="muted">{t("none")}</p>}
          {shown.length > 0 && (
            <ul class="drain-list" aria-live="polite">
              {shown.map((eviction) => (
                <li key={eviction.key}><code>{eviction.key}</code><Status text={t(eviction.state)} level={LEVELS[eviction.state]} />{eviction.message && <span class="muted">{eviction.message}</span>}</li>
              ))}
            </ul>
          )}
          {!running && plan.blocked.length > 0 && (
            <div class="message warning drain-blocked" role="status">
              <Icon name="warning" />
              <div><p>{t("blocked")}</p><ul class="drain-list">{plan.blocked.map(({ key, reason }) => <li key={key}><code>{key}</code><span class="muted">{blockText(reason)}</span></li>)}</ul></div>
            </div>
          )}
          <Others title={t("kept", { n: plan.kept.length })} items={plan.kept.map(({ key, reason }) => [key, keptText(reason)])} />
        </section>
      )}
      <KubectlHint command={kubectl.drain(node, { deletesEmptyDir, force, graceSeconds: null })} />
    </Dialog>
  );
}

function blockText(reason: BlockReason): string {
  return reason === "emptyDir" ? t("hasEmptyDir") : t("unmanaged");
}

function keptText(reason: KeptReason): string {
  return t(reason);
}

function Others({ title, items }: { title: string; items: readonly (readonly [string, string])[] }) {
  if (!items.length) return null;
  return (
    <details>
      <summary>{title} ({items.length})</summary>
      <ul class="drain-list">{items.map(([key, text]) => <li key={key}><code>{key}</code><span class="muted">{text}</span></li>)}</ul>
    </details>
  );
}
