/** What of a namespace talks to what: ingresses, services, endpoints, pods and the policies that isolate them. */
import { at, list, record, text, type KubernetesObject } from "../../app/kubernetes";

export type NodeKind = "Ingress" | "Service" | "EndpointSlice" | "Pod" | "NetworkPolicy";
export const LAYERS: readonly NodeKind[] = ["Ingress", "Service", "EndpointSlice", "Pod", "NetworkPolicy"];

export interface GraphNode {
  readonly id: string;
  readonly kind: NodeKind;
  readonly namespace: string;
  readonly name: string;
  readonly detail: string;
  readonly level: "good" | "warning" | "bad" | "progress" | "neutral";
  /** How many pods it stands for. */
  readonly count: number;
}

export interface GraphEdge {
  readonly from: string;
  readonly to: string;
  readonly label: string;
  readonly isBroken: boolean;
}

export interface Graph {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  /** How many objects were left out. */
  readonly omitted: number;
}

export interface MapPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The name of the controller that owns it. */
  readonly owner: string;
  readonly node: string;
  readonly level: GraphNode["level"];
}

export interface MapObjects {
  readonly ingresses: readonly KubernetesObject[];
  readonly services: readonly KubernetesObject[];
  readonly slices: readonly KubernetesObject[];
  readonly pods: readonly MapPod[];
  readonly policies: readonly KubernetesObject[];
}

export const MOST_NODES = 200;
const GROUPED_FROM = 8;

function id(kind: NodeKind, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}

/** Does a label selector select these labels? The empty selector selects all. */
export function selects(selector: unknown, labels: Readonly<Record<string, string>> = {}): boolean {
  const equal = Object.entries(record(at(selector, "matchLabels"))).every(([key, value]) => labels[key] === value);
  return equal && list(at(selector, "matchExpressions")).every((item) => {
    const value = labels[text(at(item, "key"))];
    const values = list(at(item, "values")).map(text);
    switch (at(item, "operator")) {
      case "In": return value !== undefined && values.includes(value);
      case "NotIn": return value === undefined || !values.includes(value);
      case "Exists": return value !== undefined;
      default: return value === undefined;
    }
  });
}

function worst(levels: readonly GraphNode["level"][]): GraphNode["level"] {
  return (["bad", "warning", "progress", "good"] as const).find((level) => levels.includes(level)) ?? "neutral";
}

export function buildGraph(objects: MapObjects): Graph {
  const nodes = new Map<string, GraphNode>();
  const edges = new Map<string, GraphEdge>();
  const add = (kind: NodeKind, object: KubernetesObject, detail: string, level: GraphNode["level"]): string => {
    const namespace = object.metadata.namespace ?? "";
    const own = id(kind, namespace, object.metadata.name);
    nodes.set(own, { id: own, kind, namespace, name: object.metadata.name, detail, level, count: 1 });
    return own;
  };
  const connect = (from: string, to: string, label = "", isBroken = false): void => {
    edges.set(`${from}>${to}`, { from, to, label, isBroken });
  };

  for (const { namespace, name, node, level } of objects.pods) {
    const own = id("Pod", namespace, name);
    nodes.set(own, { id: own, kind: "Pod", namespace, name, detail: node, level, count: 1 });
  }
  for (const service of objects.services) {
    const ports = list(at(service, "spec", "ports")).map((port) => text(at(port, "port"))).join(", ");
    add("Service", service, `${text(at(service, "spec", "clusterIP"))}${ports ? `:${ports}` : ""}`, "neutral");
  }
  for (const slice of objects.slices) {
    const namespace = slice.metadata.namespace ?? "";
    const service = id("Service", namespace, slice.metadata.labels?.["kubernetes.io/service-name"] ?? "");
    if (!nodes.has(service)) continue;
    const endpoints = list(slice["endpoints"]);
    const ready = endpoints.filter((endpoint) => at(endpoint, "conditions", "ready") !== false).length;
    const own = add("EndpointSlice", slice, `${ready}/${endpoints.length}`, endpoints.length === 0 ? "warning" : ready === 0 ? "bad" : ready < endpoints.length ? "warning" : "good");
    connect(service, own);
    for (const endpoint of endpoints) {
      const pod = id("Pod", namespace, text(at(endpoint, "targetRef", "name")));
      if (nodes.has(pod)) connect(own, pod, "", at(endpoint, "conditions", "ready") === false);
    }
  }
  for (const ingress of objects.ingresses) {
    const namespace = ingress.metadata.namespace ?? "";
    const own = add("Ingress", ingress, list(at(ingress, "spec", "rules")).map((rule) => text(at(rule, "host")) || "*").join(", "), "neutral");
    const backends = list(at(ingress, "spec", "rules")).flatMap((rule) => list(at(rule, "http", "paths")).map((path) => [text(at(path, "backend", "service", "name")), text(at(path, "path"))]));
    const fallback = text(at(ingress, "spec", "defaultBackend", "service", "name"));
    for (const [service = "", path = ""] of fallback ? [...backends, [fallback, "*"]] : backends) {
      const to = id("Service", namespace, service);
      if (nodes.has(to)) connect(own, to, path);
    }
  }
  for (const policy of objects.policies) {
    const types = list(at(policy, "spec", "policyTypes")).map(text).join(", ");
    const own = add("NetworkPolicy", policy, types, "neutral");
    for (const pod of objects.pods) {
      if (pod.namespace === policy.metadata.namespace && selects(at(policy, "spec", "podSelector"), pod.labels)) connect(id("Pod", pod.namespace, pod.name), own);
    }
  }
  const levels = new Map<string, GraphNode["level"][]>();
  for (const edge of edges.values()) if (edge.from.startsWith("Service/")) put(levels, edge.from, nodes.get(edge.to)?.level ?? "neutral");
  for (const [own, slices] of levels) {
    const node = nodes.get(own);
    if (node) nodes.set(own, { ...node, level: worst(slices) });
  }
  return bounded(grouped([...nodes.values()], [...edges.values()], objects.pods));
}

function put<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const known = lists.get(key);
  if (known) known.push(value);
  else lists.set(key, [value]);
}

/** Many pods with the same owner and the same neighbours become one node. */
function grouped(nodes: readonly GraphNode[], edges: readonly GraphEdge[], pods: readonly MapPod[]): Graph {
  const owners = new Map(pods.map((pod) => [id("Pod", pod.namespace, pod.name), pod.owner]));
  const neighbours = new Map<string, string[]>();
  for (const edge of edges) {
    put(neighbours, edge.from, `>${edge.to}`);
    put(neighbours, edge.to, `<${edge.from}`);
  }
  const groups = new Map<string, GraphNode[]>();
  for (const node of nodes) {
    if (node.kind !== "Pod" || !owners.get(node.id)) continue;
    const key = [owners.get(node.id), ...(neighbours.get(node.id) ?? []).toSorted()].join("|");
    put(groups, key, node);
  }
  const replacement = new Map<string, string>();
  const added: GraphNode[] = [];
  for (const members of groups.values()) {
    const [first] = members;
    if (!first || members.length < GROUPED_FROM) continue;
    const owner = owners.get(first.id) ?? first.name;
    const own = `Pod/${first.namespace}/${owner}-*${added.length}`;
    const ready = members.filter((member) => member.level === "good").length;
    added.push({ ...first, id: own, name: `${owner}-*`, detail: `${ready}/${members.length}`, level: worst(members.map((member) => member.level)), count: members.length });
    for (const member of members) replacement.set(member.id, own);
  }
  const kept = [...nodes.filter((node) => !replacement.has(node.id)), ...added];
  const moved = new Map<string, GraphEdge>();
  for (const edge of edges) {
    const next = { ...edge, from: replacement.get(edge.from) ?? edge.from, to: replacement.get(edge.to) ?? edge.to };
    const before = moved.get(`${next.from}>${next.to}`);
    moved.set(`${next.from}>${next.to}`, before ? { ...next, isBroken: before.isBroken && next.isBroken } : next);
  }
  return { nodes: kept, edges: [...moved.values()], omitted: 0 };
}

/** Keeps the objects with the most to say when there are too many: those with edges first. */
function bounded(graph: Graph): Graph {
  if (graph.nodes.length <= MOST_NODES) return graph;
  const connected = new Set(graph.edges.flatMap((edge) => [edge.from, edge.to]));
  const kept = graph.nodes.toSorted((a, b) => Number(connected.has(b.id)) - Number(connected.has(a.id))).slice(0, MOST_NODES);
  const ids = new Set(kept.map((node) => node.id));
  return { nodes: kept, edges: graph.edges.filter((edge) => ids.has(edge.from) && ids.has(edge.to)), omitted: graph.nodes.length - kept.length };
}

/** What is connected with one object, in any number of steps along the traffic and back. */
export function around(graph: Graph, start: string): Graph {
  if (!graph.nodes.some((node) => node.id === start)) return graph;
  const reached = new Set([start]);
  const walk = (forward: boolean): void => {
    const queue = [start];
    for (let current = queue.pop(); current; current = queue.pop()) {
      for (const edge of graph.edges) {
        const [near, far] = forward ? [edge.from, edge.to] : [edge.to, edge.from];
        if (near === current && !reached.has(far)) {
          reached.add(far);
          queue.push(far);
        }
      }
    }
  };
  walk(true);
  walk(false);
  return {
    nodes: graph.nodes.filter((node) => reached.has(node.id)),
    edges: graph.edges.filter((edge) => reached.has(edge.from) && reached.has(edge.to)),
    omitted: graph.omitted,
  };
}
