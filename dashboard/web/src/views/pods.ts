/** Pods of an object, and the containers of a pod. */
import { useMemo } from "preact/hooks";
import { at, list, record, text, type KubernetesObject } from "../app/kubernetes";
import type { Resource } from "../app/resources";
import { type LiveObjects, type SubscriptionRequest, useLiveObjects } from "../app/stream";

/** A label selector in the syntax of a query: `app=web,tier in (a,b)`; null where the object selects no pods. */
export function selectorText(selector: unknown): string | null {
  const parts = record(selector);
  const isPlain = !("matchLabels" in parts) && !("matchExpressions" in parts);
  const labels = Object.entries(record(isPlain ? parts : parts["matchLabels"])).map(([key, value]) => `${key}=${text(value)}`);
  const expressions = isPlain ? [] : list(parts["matchExpressions"]).map((item) => {
    const key = text(at(item, "key"));
    const values = list(at(item, "values")).map(text).join(",");
    switch (at(item, "operator")) {
      case "Exists": return key;
      case "DoesNotExist": return `!${key}`;
      case "NotIn": return `${key} notin (${values})`;
      default: return `${key} in (${values})`;
    }
  });
  const all = [...labels, ...expressions];
  return all.length ? all.join(",") : null;
}

export function isPod(resource: Resource): boolean {
  return resource.name === "pods" && resource.group === "";
}

/** Kinds whose pods a selector names. */
export function selectsPods(resource: Resource): boolean {
  const qualified = resource.group ? `${resource.name}.${resource.group}` : resource.name;
  return ["deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps", "replicationcontrollers", "jobs.batch", "services"].includes(qualified);
}

export function isClaim(resource: Resource): boolean {
  return resource.name === "persistentvolumeclaims" && resource.group === "";
}

export interface Mount {
  readonly container: string;
  readonly path: string;
}

/** Where the containers of a pod mount a claim. */
export function mountsOfClaim(pod: unknown, claim: string): Mount[] {
  const volumes = new Set(list(at(pod, "spec", "volumes")).filter((volume) => at(volume, "persistentVolumeClaim", "claimName") === claim).map((volume) => text(at(volume, "name"))));
  return list(at(pod, "spec", "containers")).flatMap((container) =>
    list(at(container, "volumeMounts")).filter((mount) => volumes.has(text(at(mount, "name"))))
      .map((mount) => ({ container: text(at(container, "name")), path: text(at(mount, "mountPath")) })));
}

function podRequest(resource: Resource, object: KubernetesObject): SubscriptionRequest | null {
  const namespace = object.metadata.namespace ?? "";
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
  if (isPod(resource)) return { path, fieldSelector: `metadata.name=${object.metadata.name}` };
  if (isClaim(resource)) return { path };
  const labelSelector = selectorText(at(object, "spec", "selector"));
  return labelSelector ? { path, labelSelector } : null;
}

export function usePods(cluster: string, resource: Resource, object: KubernetesObject): LiveObjects {
  const request = useMemo(() => podRequest(resource, object), [resource, object.metadata.uid, JSON.stringify(at(object, "spec", "selector"))]);
  const live = useLiveObjects(cluster, request);
  if (!request) return { objects: [], error: null };
  if (!isClaim(resource)) return live;
  return { ...live, objects: live.objects?.filter((pod) => mountsOfClaim(pod, object.metadata.name).length > 0) };
}

export interface ContainerName {
  readonly name: string;
  readonly type: "container" | "init" | "ephemeral";
}

export function containersOf(pod: unknown): ContainerName[] {
  const names = (field: string, type: ContainerName["type"]): ContainerName[] =>
    list(at(pod, "spec", field)).map((container) => ({ name: text(at(container, "name")), type }));
  return [...names("containers", "container"), ...names("initContainers", "init"), ...names("ephemeralContainers", "ephemeral")];
}

export function isRunning(pod: unknown, container: string): boolean {
  const statuses = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"].flatMap((field) => list(at(pod, "status", field)));
  return statuses.some((status) => at(status, "name") === container && at(status, "state", "running") !== undefined);
}
