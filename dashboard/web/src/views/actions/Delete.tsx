/** Deletes objects, after a statement of what goes with them. */
import { useState } from "preact/hooks";
import { ApiError, asApiError, cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import type { KubernetesObject } from "../../app/kubernetes";
import { discovery, listHref, objectPath } from "../../app/resources";
import { location, navigate } from "../../app/router";
import { Button, Dialog, ErrorBox, Field, KubectlHint, Loading, Select } from "../../components";
import type { ActionProps, ActionTarget } from "..";
import { useLoad } from "../load";
import { countByKind, type Dependent, findDependents } from "./dependents";
import { kubectl } from "./kubectl";
import { rememberChange } from "./undo";
import "./actions.css";

const t = catalog({
  title: ["Delete {kind} {name}", "删除 {kind} {name}"],
  several: ["Delete {n} {kind} objects", "删除 {n} 个 {kind}"],
  alone: ["Nothing else is deleted with it.", "不会连带删除其他对象。"],
  goes: ["Deleted with it:", "将连带删除："],
  stays: ["These are kept, without an owner:", "以下对象将保留，但不再有所有者："],
  looking: ["Looking for what is deleted with it…", "正在查找将连带删除的对象…"],
  incomplete: ["Could not list {kinds}: there may be more.", "无法列出 {kinds}：可能还有更多。"],
  finalizers: ["Finalizers keep it until they are removed: {names}.", "以下 finalizer 移除前对象仍会保留：{names}。"],
  recreated: ["{owner} creates another one in its place.", "{owner} 会创建新的对象来代替它。"],
  crd: ["All objects of this kind in all namespaces are deleted with it.", "所有 namespace 中该类型的对象都将被删除。"],
  node: ["Its pods are deleted; a kubelet that still runs registers the node again.", "其 Pod 将被删除；仍在运行的 kubelet 会重新注册该节点。"],
  cascade: ["Dependents", "从属对象"],
  background: ["Delete them afterwards (background)", "之后删除（background）"],
  foreground: ["Delete them first (foreground)", "先删除（foreground）"],
  orphan: ["Keep them (orphan)", "保留（orphan）"],
  grace: ["Grace period in seconds", "宽限期（秒）"],
  graceHelp: ["Empty: as the pod says. 0 removes the object at once, without waiting for its containers.", "留空：按 Pod 设置。0 表示立即移除，不等待容器结束。"],
  confirm: ["Type {name} to confirm", "输入 {name} 以确认"],
  action: ["Delete", "删除"],
  cancel: ["Cancel", "取消"],
  more: ["and {n} more", "还有 {n} 个"],
});

const MOST_SHOWN = 60;
const RISKY = new Set(["namespaces", "customresourcedefinitions", "nodes", "persistentvolumes"]);

export default function Delete(props: ActionProps) {
  const { cluster: clusterName, resource, targets, onClose } = props;
  const [cascade, setCascade] = useState<"background" | "foreground" | "orphan">("background");
  const [grace, setGrace] = useState("");
  const [typed, setTyped] = useState("");
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [isRunning, setRunning] = useState(false);
  const resources = discovery(clusterName).value.catalog;
  const first = targets[0];
  const isOne = targets.length === 1;
  const live = useLoad(() => Promise.all(targets.slice(0, MOST_SHOWN).map((target) =>
    cluster(clusterName).k8s<KubernetesObject>(objectPath(resource, target.namespace, target.name)))), [clusterName, resource.name, targets]);
  const owned = useLoad(async () => (live.value && resources ? findDependents(clusterName, resources, resource, live.value) : null),
    [live.value?.map((object) => object.metadata.uid), resources !== undefined]);
  const needsName = isOne && RISKY.has(resource.name);
  const graceSeconds = /^\d+$/.test(grace) ? Number(grace) : null;

  const remove = async (target: ActionTarget) => {
    const path = objectPath(resource, target.namespace, target.name);
    const before = await cluster(clusterName).k8s<KubernetesObject>(path);
    const policy = cascade[0]!.toUpperCase() + cascade.slice(1);
    await cluster(clusterName).k8s(path, {
      method: "DELETE",
      body: {
        apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: policy, preconditions: { uid: before.metadata.uid },
        ...(graceSeconds === null ? {} : { gracePeriodSeconds: graceSeconds }),
      },
    });
    rememberChange({ cluster: clusterName, resource, namespace: target.namespace ?? "", name: target.name }, "deleted", before);
  };
  const run = async () => {
    setRunning(true);
    setFailure(null);
    try {
      for (const target of targets) await remove(target);
      onClose();
      const { segments } = location.peek();
      if (first && isOne && segments[4] === first.name) navigate(listHref(clusterName, resource, { namespace: first.namespace }));
    } catch (reason) {
      setFailure(asApiError(reason));
      setRunning(false);
    }
  };

  const commands = targets.map((target) => kubectl.delete({ resource, namespace: target.namespace ?? "", name: target.name }, { cascade, graceSeconds }));
  const controller = live.value?.[0]?.metadata.ownerReferences?.find((owner) => owner.controller);
  const finalizers = [...new Set(live.value?.flatMap((object) => object.metadata.finalizers ?? []))];
  return (
    <Dialog title={isOne ? t("title", { kind: resource.kind, name: first?.name ?? "" }) : t("several", { n: targets.length, kind: resource.kind })} onClose={onClose} footer={
      <>
        <Button onClick={onClose}>{t("cancel")}</Button>
        <Button look="danger" disabled={isRunning || (needsName && typed !== first?.name)} onClick={() => void run()}>{t("action")}</Button>
      </>
    }>
      {failure && <ErrorBox error={failure} />}
      {live.error && <ErrorBox error={live.error} />}
      {!isOne && <ul class="delete-targets">{targets.slice(0, MOST_SHOWN).map((target) => <li key={`${target.namespace}/${target.name}`}><code>{target.namespace ? `${target.namespace}/` : ""}{target.name}</code></li>)}</ul>}
      {owned.error && <ErrorBox error={owned.error} />}
      {isOne && controller && <p>{t("recreated", { owner: `${controller.kind} ${controller.name}` })}</p>}
      {owned.value && <Statement dependents={owned.value.dependents} isOrphaned={cascade === "orphan"} />}
      {!owned.value && !owned.error && !live.error && <><p class="muted">{t("looking")}</p><Loading rows={2} /></>}
      {owned.value && owned.value.unknown.length > 0 && <p class="muted">{t("incomplete", { kinds: owned.value.unknown.join(", ") })}</p>}
      {finalizers.length > 0 && <p>{t("finalizers", { names: finalizers.join(", ") })}</p>}
      {resource.name === "customresourcedefinitions" && <p>{t("crd")}</p>}
      {resource.name === "nodes" && <p>{t("node")}</p>}
      <Select label={t("cascade")} value={cascade} onChange={(value) => setCascade(value as typeof cascade)}
        options={[["background", t("background")], ["foreground", t("foreground")], ["orphan", t("orphan")]]} />
      {resource.name === "pods" && <Field label={t("grace")} value={grace} onInput={setGrace} help={t("graceHelp")} />}
      {needsName && <Field label={t("confirm", { name: first?.name ?? "" })} value={typed} onInput={setTyped} />}
      <KubectlHint command={commands.join("\n")} />
    </Dialog>
  );
}

function Statement({ dependents, isOrphaned }: { dependents: readonly Dependent[]; isOrphaned: boolean }) {
  if (!dependents.length) return <p>{t("alone")}</p>;
  const counts = [...countByKind(dependents)].map(([kind, count]) => `${count} ${kind}`).join(", ");
  return (
    <section class="stack">
      <p><strong>{isOrphaned ? t("stays") : t("goes")}</strong> {counts}</p>
      <ul class="delete-tree">
        {dependents.slice(0, MOST_SHOWN).map(({ resource, object, depth }) => (
          <li key={object.metadata.uid} style={{ paddingLeft: `${depth * 1.25}rem` }}>{resource.kind} <code>{object.metadata.name}</code></li>
        ))}
      </ul>
      {dependents.length > MOST_SHOWN && <p class="muted">{t("more", { n: dependents.length - MOST_SHOWN })}</p>}
    </section>
  );
}
