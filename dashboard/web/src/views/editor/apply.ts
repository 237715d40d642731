/** Dry runs and writes of manifests. The dry run returns what the server would store, defaults and webhooks included. */
import { ApiError, cluster } from "../../app/http";
import type { KubernetesObject } from "../../app/kubernetes";
import { listPath, objectPath, type Resource, type ResourceCatalog } from "../../app/resources";
import { splitDocuments } from "./manifest";
import { objectYaml } from "./yaml";

export const FIELD_MANAGER = "sampan-dashboard";

/** `replace` is a PUT of the whole object, `apply` server-side apply, `create` a POST. */
export type WriteMethod = "create" | "replace" | "apply";

export interface Write {
  readonly cluster: string;
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  /** YAML or JSON. */
  readonly text: string;
  readonly method: WriteMethod;
  /** Takes over the fields of other field managers. */
  readonly force?: boolean;
}

const MEDIA_TYPES: Readonly<Record<WriteMethod, string>> = {
  create: "application/yaml",
  replace: "application/yaml",
  apply: "application/apply-patch+yaml",
};

export async function send(write: Write, isDryRun: boolean, signal?: AbortSignal): Promise<KubernetesObject> {
  const query = new URLSearchParams({ fieldManager: FIELD_MANAGER, fieldValidation: "Strict" });
  if (isDryRun) query.set("dryRun", "All");
  if (write.method === "apply" && write.force) query.set("force", "true");
  const base = write.method === "create" ? listPath(write.resource, write.namespace) : objectPath(write.resource, write.namespace, write.name);
  return cluster(write.cluster).k8s<KubernetesObject>(`${base}?${query}`, {
    method: write.method === "create" ? "POST" : write.method === "replace" ? "PUT" : "PATCH",
    headers: { "Content-Type": MEDIA_TYPES[write.method] },
    body: write.text,
    ...(signal ? { signal } : {}),
  });
}

/** The live object, or null where there is none. */
export async function readLive(clusterName: string, resource: Resource, namespace: string, name: string): Promise<KubernetesObject | null> {
  if (!name) return null;
  try {
    return await cluster(clusterName).k8s<KubernetesObject>(objectPath(resource, namespace, name));
  } catch (error) {
    if (error instanceof ApiError && error.code === 404) return null;
    throw error;
  }
}

export interface Review {
  readonly live: KubernetesObject | null;
  readonly before: string;
  readonly after: string;
}

/** Fields of the metadata that change with every write and say nothing. */
function comparable(object: KubernetesObject | null): string {
  if (!object) return "";
  const { resourceVersion: _version, ...metadata } = object.metadata as unknown as Record<string, unknown>;
  return objectYaml({ ...object, metadata });
}

export async function review(write: Write): Promise<Review> {
  const live = await readLive(write.cluster, write.resource, write.namespace, write.name);
  const merged = await send(write, true);
  const isNew = !live;
  const after = isNew ? objectYaml(withoutIdentity(merged)) : comparable(merged);
  return { live, before: comparable(live), after };
}

/** A dry run invents a uid and times for an object that does not exist. */
function withoutIdentity(object: KubernetesObject): KubernetesObject {
  const { uid: _uid, creationTimestamp: _time, resourceVersion: _version, ...metadata } = object.metadata as unknown as Record<string, unknown>;
  return { ...object, metadata: metadata as unknown as KubernetesObject["metadata"] };
}

export interface PlannedWrite {
  readonly write: Write | null;
  /** What the document names, for people. */
  readonly title: string;
  readonly problem: "" | "noKind" | "unknownKind" | "noName";
}

/** One write for each document of a manifest; `namespace` is for namespaced objects that name none. */
export function planWrites(clusterName: string, catalog: ResourceCatalog, text: string, namespace: string): PlannedWrite[] {
  return splitDocuments(text).map(({ text: own, identity }) => {
    const title = `${identity.kind || "?"} ${identity.name || "?"}`;
    if (!identity.kind || !identity.apiVersion) return { write: null, title, problem: "noKind" };
    const resource = catalog.byKind(identity.apiVersion, identity.kind);
    if (!resource) return { write: null, title, problem: "unknownKind" };
    const place = resource.namespaced ? identity.namespace || namespace : "";
    const isNamed = identity.name !== "";
    if (!isNamed && !/^\s+generateName:/m.test(own)) return { write: null, title, problem: "noName" };
    return {
      title: `${identity.kind} ${place ? `${place}/` : ""}${identity.name}`,
      problem: "",
      write: { cluster: clusterName, resource, namespace: place, name: identity.name, text: own, method: isNamed ? "apply" : "create" },
    };
  });
}
