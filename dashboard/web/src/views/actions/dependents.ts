/** What goes with an object when it is deleted: everything that it owns, directly and indirectly. */
import { cluster } from "../../app/http";
import type { KubernetesObject, ObjectList } from "../../app/kubernetes";
import { listPath, type Resource, type ResourceCatalog } from "../../app/resources";

export interface Dependent {
  readonly resource: Resource;
  readonly object: KubernetesObject;
  readonly depth: number;
}

const METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const PAGE = 500;
const CONCURRENT = 6;
/** Kinds that own nothing and are never owned, or whose lists are long and say nothing here. */
const SKIPPED = new Set(["events", "componentstatuses", "bindings"]);

export interface OwnedObjects {
  readonly dependents: readonly Dependent[];
  /** Resources that could not be listed: the statement may be incomplete. */
  readonly unknown: readonly string[];
}

/** Builds the owner tree below one uid, parents before children. */
export function ownedBy(uid: string, objects: readonly { readonly resource: Resource; readonly object: KubernetesObject }[]): Dependent[] {
  const byOwner = new Map<string, { resource: Resource; object: KubernetesObject }[]>();
  for (const item of objects) {
    for (const owner of item.object.metadata.ownerReferences ?? []) {
      const siblings = byOwner.get(owner.uid) ?? [];
      siblings.push(item);
      byOwner.set(owner.uid, siblings);
    }
  }
  const dependents: Dependent[] = [];
  const seen = new Set<string>([uid]);
  const walk = (owner: string, depth: number): void => {
    for (const { resource, object } of byOwner.get(owner) ?? []) {
      const own = object.metadata.uid ?? "";
      if (seen.has(own)) continue;
      seen.add(own);
      dependents.push({ resource, object, depth });
      walk(own, depth + 1);
    }
  };
  walk(uid, 0);
  return dependents;
}

/** Counts by kind, in the order in which they appear. */
export function countByKind(dependents: readonly Dependent[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { resource } of dependents) counts.set(resource.kind, (counts.get(resource.kind) ?? 0) + 1);
  return counts;
}

async function listMetadata(clusterName: string, resource: Resource, namespace: string): Promise<readonly KubernetesObject[]> {
  const page = await cluster(clusterName).k8s<ObjectList>(`${listPath(resource, namespace)}?limit=${PAGE}`, { headers: { Accept: METADATA_ONLY } });
  return page.items ?? [];
}

/** All namespaced objects of a namespace, without their contents. */
async function listNamespace(clusterName: string, resources: readonly Resource[], namespace: string): Promise<{ found: { resource: Resource; object: KubernetesObject }[]; unknown: string[] }> {
  const found: { resource: Resource; object: KubernetesObject }[] = [];
  const unknown: string[] = [];
  const queue = [...resources];
  const work = async (): Promise<void> => {
    for (let resource = queue.shift(); resource; resource = queue.shift()) {
      const current = resource;
      try {
        for (const object of await listMetadata(clusterName, current, namespace)) found.push({ resource: current, object });
      } catch {
        unknown.push(current.kind);
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT }, work));
  return { found, unknown };
}

/** Everything that goes with these objects of one kind; each namespace is listed once. */
export async function findDependents(clusterName: string, catalog: ResourceCatalog, resource: Resource, objects: readonly KubernetesObject[]): Promise<OwnedObjects> {
  const isNamespace = resource.name === "namespaces" && resource.group === "";
  const placeOf = (object: KubernetesObject): string => (isNamespace ? object.metadata.name : (object.metadata.namespace ?? ""));
  const dependents: Dependent[] = [];
  const unknown = new Set<string>();
  for (const place of new Set(objects.map(placeOf))) {
    const kinds = catalog.all.filter((item) => item.verbs.includes("list") && !SKIPPED.has(item.name) && (place ? item.namespaced : true));
    const listed = await listNamespace(clusterName, kinds, place);
    for (const kind of listed.unknown) unknown.add(kind);
    if (isNamespace) dependents.push(...listed.found.map((item) => ({ ...item, depth: 0 })));
    else for (const object of objects.filter((item) => placeOf(item) === place)) dependents.push(...ownedBy(object.metadata.uid ?? "", listed.found));
  }
  return { dependents, unknown: [...unknown] };
}
