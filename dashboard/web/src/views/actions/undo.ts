/** What this page has changed, and how to take it back: by applying the object as it was. */
import { signal } from "@preact/signals";
import { asApiError, cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import type { KubernetesObject } from "../../app/kubernetes";
import { notify } from "../../app/notices";
import { listPath, objectPath, type Resource } from "../../app/resources";

const t = catalog({
  created: ["{kind} {name} created", "已创建 {kind} {name}"],
  changed: ["{kind} {name} changed", "已修改 {kind} {name}"],
  deleted: ["{kind} {name} deleted", "已删除 {kind} {name}"],
  undo: ["Undo", "撤销"],
  undone: ["{kind} {name} is as it was", "{kind} {name} 已恢复"],
  removed: ["{kind} {name} is deleted again", "已再次删除 {kind} {name}"],
  failed: ["Undo failed: {message}", "撤销失败：{message}"],
  changedAgain: ["{kind} {name} has changed again since; its YAML can still be edited.", "{kind} {name} 之后又有更改；仍可编辑其 YAML。"],
});

export interface ChangeRecord {
  readonly id: number;
  readonly cluster: string;
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly verb: "created" | "changed" | "deleted";
  readonly before: KubernetesObject | null;
  /** What the change left behind, to tell whether others have changed the object since. */
  readonly after: Version | null;
  readonly time: number;
  readonly isUndone: boolean;
}

interface Version {
  readonly generation: number | undefined;
  readonly resourceVersion: string | undefined;
}

const MOST_CHANGES = 50;
export const changes = signal<readonly ChangeRecord[]>([]);
let nextId = 1;

interface ChangedObject {
  readonly cluster: string;
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
}

function versionOf(object: KubernetesObject): Version {
  const { generation, resourceVersion } = object.metadata;
  return { generation, resourceVersion };
}

/** Controllers write the status all the time: where there is a generation, it tells whether the specification is the same. */
export function isSameVersion(before: Version, now: Version): boolean {
  return before.generation === undefined ? before.resourceVersion === now.resourceVersion : before.generation === now.generation;
}

export function rememberChange(target: ChangedObject, verb: ChangeRecord["verb"], before: KubernetesObject | null, after: KubernetesObject | null = null): void {
  const change: ChangeRecord = { ...target, id: nextId++, verb, before, after: after && versionOf(after), time: Date.now(), isUndone: false };
  changes.value = [change, ...changes.peek()].slice(0, MOST_CHANGES);
  const action = canUndo(change) ? { action: { label: t("undo"), run: () => void undo(change) } } : {};
  notify({ level: "success", text: t(verb, { kind: target.resource.kind, name: target.name }), ...action });
}

export function rememberWrite(write: ChangedObject, before: KubernetesObject | null, after: KubernetesObject): void {
  const { cluster: clusterName, resource, namespace } = write;
  rememberChange({ cluster: clusterName, resource, namespace, name: after.metadata.name }, before ? "changed" : "created", before, after);
}

export function canUndo(change: ChangeRecord): boolean {
  // A deleted namespace or definition takes objects along that writing it again does not bring back.
  const isLost = change.verb === "deleted" && ["namespaces", "customresourcedefinitions"].includes(change.resource.name);
  return !change.isUndone && !isLost && (change.verb === "created" || change.before !== null);
}

/** The object as it can be written again: without what belongs to the old object only. */
export function restorable(object: KubernetesObject, isNew: boolean): Record<string, unknown> {
  const { managedFields: _fields, resourceVersion: _version, generation: _generation, deletionTimestamp: _deletion, deletionGracePeriodSeconds: _grace, ...rest } =
    object.metadata as unknown as Record<string, unknown>;
  const { uid: _uid, creationTimestamp: _time, ...fresh } = rest;
  const { status: _status, ...body } = object as unknown as Record<string, unknown>;
  return { ...body, metadata: isNew ? fresh : rest };
}

export async function undo(change: ChangeRecord): Promise<void> {
  const { resource, namespace, name, before, verb } = change;
  const client = cluster(change.cluster);
  const path = objectPath(resource, namespace, name);
  try {
    if (verb === "created") await client.k8s(path, { method: "DELETE" });
    else if (before && verb === "deleted") await client.k8s(listPath(resource, namespace), { method: "POST", body: restorable(before, true) });
    else if (before) {
      const live = await client.k8s<KubernetesObject>(path);
      if (change.after && !isSameVersion(change.after, versionOf(live))) {
        notify({ level: "error", text: t("changedAgain", { kind: resource.kind, name }) });
        return;
      }
      await client.k8s(path, { method: "PUT", body: restorable(before, false) });
    }
    changes.value = changes.peek().map((item) => (item.id === change.id ? { ...item, isUndone: true } : item));
    notify({ level: "success", text: t(verb === "created" ? "removed" : "undone", { kind: resource.kind, name }) });
  } catch (reason) {
    notify({ level: "error", text: t("failed", { message: asApiError(reason).message }) });
  }
}
