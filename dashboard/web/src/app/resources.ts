/** Which kinds a cluster serves, from discovery: names, verbs, places in the navigation, and addresses of their views. */
import { signal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asApiError, cluster, type ApiError } from "./http";
import { href } from "./router";

export interface Resource {
  readonly group: string;
  readonly version: string;
  /** The plural name, as in `pods`. */
  readonly name: string;
  readonly kind: string;
  readonly singular: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly subresources: readonly string[];
}

export type Section = "workloads" | "network" | "configuration" | "storage" | "access" | "cluster" | "custom";
export const SECTIONS: readonly Section[] = ["workloads", "network", "configuration", "storage", "access", "cluster", "custom"];

const SECTION_RESOURCES: Readonly<Record<Exclude<Section, "custom">, readonly string[]>> = {
  workloads: ["pods", "deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch", "replicasets.apps",
    "replicationcontrollers", "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy", "podtemplates"],
  network: ["services", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "endpointslices.discovery.k8s.io",
    "ingressclasses.networking.k8s.io", "servicecidrs.networking.k8s.io", "ipaddresses.networking.k8s.io", "endpoints"],
  configuration: ["configmaps", "secrets", "resourcequotas", "limitranges", "priorityclasses.scheduling.k8s.io", "runtimeclasses.node.k8s.io"],
  storage: ["persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io",
    "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io", "volumeattributesclasses.storage.k8s.io"],
  access: ["serviceaccounts", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io", "certificatesigningrequests.certificates.k8s.io"],
  cluster: ["nodes", "namespaces", "events", "leases.coordination.k8s.io", "customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"],
};

/** `deployments.apps`, `pods`: how kubectl and RBAC rules name a resource. */
export function qualifiedName(resource: Pick<Resource, "group" | "name">): string {
  return resource.group ? `${resource.name}.${resource.group}` : resource.name;
}

/** `apps~v1~deployments`; the core group is empty: `~v1~pods`. */
export function routeName(resource: Pick<Resource, "group" | "version" | "name">): string {
  return `${resource.group}~${resource.version}~${resource.name}`;
}

export function apiVersion(resource: Pick<Resource, "group" | "version">): string {
  return resource.group ? `${resource.group}/${resource.version}` : resource.version;
}

export function listPath(resource: Resource, namespace?: string): string {
  const base = resource.group ? `/apis/${resource.group}/${resource.version}` : `/api/${resource.version}`;
  const scope = resource.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${base}${scope}/${resource.name}`;
}

export function objectPath(resource: Resource, namespace: string | undefined, name: string): string {
  return `${listPath(resource, namespace)}/${encodeURIComponent(name)}`;
}

export function listHref(clusterName: string, resource: Pick<Resource, "group" | "version" | "name">, query: Readonly<Record<string, string | undefined>> = {}): string {
  return href(["c", clusterName, routeName(resource)], query);
}

export function objectHref(clusterName: string, resource: Pick<Resource, "group" | "version" | "name">, namespace: string | undefined, name: string, tab = ""): string {
  return href(["c", clusterName, routeName(resource), namespace || "-", name, ...(tab ? [tab] : [])]);
}

export function sectionOf(resource: Resource): Section {
  const qualified = qualifiedName(resource);
  for (const section of SECTIONS) {
    if (section !== "custom" && SECTION_RESOURCES[section].includes(qualified)) return section;
  }
  return resource.group === "" || resource.group.endsWith(".k8s.io") || !resource.group.includes(".") ? "cluster" : "custom";
}

/** Place of a resource within its section: the order of the table above, others after by name. */
export function sectionRank(resource: Resource): number {
  const section = sectionOf(resource);
  const rank = section === "custom" ? -1 : SECTION_RESOURCES[section].indexOf(qualifiedName(resource));
  return rank < 0 ? 1000 : rank;
}

export class ResourceCatalog {
  readonly all: readonly Resource[];
  private readonly byRoute: ReadonlyMap<string, Resource>;

  constructor(all: readonly Resource[]) {
    this.all = all;
    this.byRoute = new Map(all.map((resource) => [routeName(resource), resource]));
  }

  byRouteName(name: string): Resource | undefined {
    return this.byRoute.get(name);
  }

  byKind(apiVersionOfKind: string, kind: string): Resource | undefined {
    const sameKind = this.all.filter((resource) => resource.kind === kind);
    const group = apiVersionOfKind.includes("/") ? apiVersionOfKind.split("/")[0] : "";
    return sameKind.find((resource) => apiVersion(resource) === apiVersionOfKind) ?? sameKind.find((resource) => resource.group === group);
  }

  /** By plural name and group: `find("pods")`, `find("deployments", "apps")`. */
  find(name: string, group = ""): Resource | undefined {
    return this.all.find((resource) => resource.name === name && resource.group === group);
  }

  inSection(section: Section): Resource[] {
    const members = this.all.filter((resource) => sectionOf(resource) === section && resource.verbs.includes("list"));
    return members.sort((a, b) => sectionRank(a) - sectionRank(b) || a.kind.localeCompare(b.kind));
  }
}

interface DiscoveredResource {
  readonly resource: string;
  readonly responseKind?: { readonly kind?: string };
  readonly scope?: string;
  readonly singularResource?: string;
  readonly verbs?: readonly string[];
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  readonly subresources?: readonly { readonly subresource: string }[];
}

interface DiscoveryGroup {
  readonly metadata?: { readonly name?: string };
  readonly versions?: readonly { readonly version: string; readonly resources?: readonly DiscoveredResource[] }[];
}

/** The resources of aggregated discovery documents, each in the first (preferred) version that serves it. */
export function readDiscovery(groups: readonly DiscoveryGroup[]): Resource[] {
  const resources = new Map<string, Resource>();
  for (const group of groups) {
    for (const version of group.versions ?? []) {
      for (const item of version.resources ?? []) {
        const resource: Resource = {
          group: group.metadata?.name ?? "",
          version: version.version,
          name: item.resource,
          kind: item.responseKind?.kind ?? item.resource,
          singular: item.singularResource || (item.responseKind?.kind ?? item.resource).toLowerCase(),
          namespaced: item.scope === "Namespaced",
          verbs: item.verbs ?? [],
          shortNames: item.shortNames ?? [],
          categories: item.categories ?? [],
          subresources: (item.subresources ?? []).map((subresource) => subresource.subresource),
        };
        const key = qualifiedName(resource);
        if (!resources.has(key)) resources.set(key, resource);
      }
    }
  }
  // Events exist in two groups; the core one has the columns that people know.
  if (resources.has("events")) resources.delete("events.events.k8s.io");
  return [...resources.values()];
}

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

export interface Discovery {
  readonly catalog: ResourceCatalog | undefined;
  readonly error: ApiError | null;
}

const discoveries = new Map<string, Signal<Discovery>>();

/** The kinds of a cluster; discovered at the first call, again with `rediscover`. */
export function discovery(clusterName: string): Signal<Discovery> {
  let state = discoveries.get(clusterName);
  if (!state) {
    discoveries.set(clusterName, (state = signal<Discovery>({ catalog: undefined, error: null })));
    void rediscover(clusterName);
  }
  return state;
}

/** Resources that are as before stay the same objects, so that views of them are not drawn anew. */
export function updatedCatalog(before: ResourceCatalog | undefined, resources: readonly Resource[]): ResourceCatalog {
  const kept = resources.map((resource) => {
    const known = before?.byRouteName(routeName(resource));
    return known && JSON.stringify(known) === JSON.stringify(resource) ? known : resource;
  });
  const isSame = before?.all.length === kept.length && kept.every((resource, index) => resource === before.all[index]);
  return before && isSame ? before : new ResourceCatalog(kept);
}

let lastRequest = 0;
const applied = new Map<string, number>();

/** Reads the kinds of a cluster again. An answer that arrives after that of a later request is dropped. */
export async function rediscover(clusterName: string): Promise<void> {
  const state = discovery(clusterName);
  const request = ++lastRequest;
  const client = cluster(clusterName);
  const headers = { Accept: AGGREGATED };
  try {
    const documents = await Promise.all(["/api", "/apis"].map((path) => client.k8s<{ items?: DiscoveryGroup[] }>(path, { headers })));
    if (request < (applied.get(clusterName) ?? 0)) return;
    applied.set(clusterName, request);
    const resources = readDiscovery(documents.flatMap((document) => document.items ?? []));
    state.value = { catalog: updatedCatalog(state.peek().catalog, resources), error: null };
  } catch (error) {
    state.value = { catalog: state.peek().catalog, error: asApiError(error) };
  }
}

/** Asks the cluster once more about a kind that it did not serve before. */
export function useRediscovery(clusterName: string, isUnknown: boolean): void {
  useEffect(() => { if (isUnknown) void rediscover(clusterName); }, [clusterName, isUnknown]);
}

export function forgetDiscovery(): void {
  discoveries.clear();
}
