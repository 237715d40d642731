/** The guided tour: what it creates, which node it breaks, and when the cluster has healed. */
import { at, list, text, type KubernetesObject } from "../../app/kubernetes";

export const TOUR_LABEL = "sampan.dev/tour";
export const TAINT_KEY = "sampan.dev/tour";
export const DEPLOYMENT = "web";

export type Step = "start" | "create" | "look" | "break" | "heal" | "repair" | "done";
export const STEPS: readonly Step[] = ["start", "create", "look", "break", "heal", "repair", "done"];

export function isReady(object: KubernetesObject): boolean {
  return list(at(object, "status", "conditions")).some((condition) => at(condition, "type") === "Ready" && at(condition, "status") === "True");
}

export function nodeOf(pod: KubernetesObject): string {
  return text(at(pod, "spec", "nodeName"));
}

export function isBroken(node: KubernetesObject): boolean {
  return list(at(node, "spec", "taints")).some((taint) => at(taint, "key") === TAINT_KEY);
}

/** The taints of a node with or without that of the tour. */
export function withTourTaint(node: KubernetesObject, isTainted: boolean): readonly unknown[] {
  const others = list(at(node, "spec", "taints")).filter((taint) => at(taint, "key") !== TAINT_KEY);
  return isTainted ? [...others, { key: TAINT_KEY, value: "broken", effect: "NoExecute" }] : others;
}

/** Nodes that can take pods of the tour. */
export function usableNodes(nodes: readonly KubernetesObject[]): KubernetesObject[] {
  return nodes.filter((node) => isReady(node) && at(node, "spec", "unschedulable") !== true &&
    list(at(node, "spec", "taints")).every((taint) => !["NoSchedule", "NoExecute"].includes(text(at(taint, "effect"))) || at(taint, "key") === TAINT_KEY));
}

/** Two pods for each node, from 2 to 6, so that each node has something to lose. */
export function replicasFor(nodes: readonly KubernetesObject[]): number {
  return Math.max(2, Math.min(6, usableNodes(nodes).length * 2));
}

/** Hollow nodes run no image; nodes of this project have an image of the machine's own programs; others pull a tiny one. */
export function workload(nodes: readonly KubernetesObject[]): { readonly image: string; readonly command?: readonly string[] } {
  const runtimes = nodes.map((node) => text(at(node, "status", "nodeInfo", "containerRuntimeVersion")));
  const isForeign = runtimes.some((runtime) => /^(containerd|cri-o|docker):/.test(runtime));
  if (isForeign || runtimes.every((runtime) => runtime.startsWith("hollow"))) return { image: "registry.k8s.io/pause:3.10" };
  return { image: "sampan.local/host", command: ["sleep", "86400"] };
}

export function manifests(namespace: string, nodes: readonly KubernetesObject[]): readonly Record<string, unknown>[] {
  const labels = { app: DEPLOYMENT, [TOUR_LABEL]: "true" };
  const container = { name: "main", ...workload(nodes), resources: { requests: { cpu: "10m", memory: "8Mi" } } };
  const spread = { maxSkew: 1, topologyKey: "kubernetes.io/hostname", whenUnsatisfiable: "ScheduleAnyway", labelSelector: { matchLabels: { app: DEPLOYMENT } } };
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace, labels: { [TOUR_LABEL]: "true" } } },
    {
      apiVersion: "apps/v1", kind: "Deployment", metadata: { name: DEPLOYMENT, namespace, labels },
      spec: {
        replicas: replicasFor(nodes),
        selector: { matchLabels: { app: DEPLOYMENT } },
        template: { metadata: { labels }, spec: { terminationGracePeriodSeconds: 1, automountServiceAccountToken: false, topologySpreadConstraints: [spread], containers: [container] } },
      },
    },
    { apiVersion: "v1", kind: "Service", metadata: { name: DEPLOYMENT, namespace, labels }, spec: { selector: { app: DEPLOYMENT }, ports: [{ port: 80 }] } },
  ];
}

export interface BreakChoice {
  readonly node: string;
  /** Pods of others that would be evicted with those of the tour. */
  readonly bystanders: readonly string[];
}

/** The node with pods of the tour on which the fewest other pods would suffer; null where only one node is left. */
export function chooseNode(nodes: readonly KubernetesObject[], tourPods: readonly KubernetesObject[], allPods: readonly KubernetesObject[]): BreakChoice | null {
  const usable = usableNodes(nodes).map((node) => node.metadata.name);
  if (usable.length < 2) return null;
  const own = new Set(tourPods.map((pod) => pod.metadata.uid));
  const choices = usable.map((node) => ({
    node,
    pods: tourPods.filter((pod) => nodeOf(pod) === node).length,
    bystanders: allPods.filter((pod) => nodeOf(pod) === node && !own.has(pod.metadata.uid) && !toleratesAll(pod)).map((pod) => `${pod.metadata.namespace}/${pod.metadata.name}`),
  })).filter((choice) => choice.pods > 0);
  return choices.toSorted((a, b) => a.bystanders.length - b.bystanders.length || b.pods - a.pods || (a.node < b.node ? -1 : 1))[0] ?? null;
}

/** Pods that tolerate every taint stay, as those of DaemonSets do. */
function toleratesAll(pod: KubernetesObject): boolean {
  return list(at(pod, "spec", "tolerations")).some((toleration) =>
    at(toleration, "operator") === "Exists" && !at(toleration, "key") && ["NoExecute", ""].includes(text(at(toleration, "effect"))));
}

export function readyPods(pods: readonly KubernetesObject[]): KubernetesObject[] {
  return pods.filter((pod) => isReady(pod) && !pod.metadata.deletionTimestamp);
}

/** All replicas are ready again, and none is on the broken node. */
export function isHealed(pods: readonly KubernetesObject[], replicas: number, brokenNode: string): boolean {
  return readyPods(pods).filter((pod) => nodeOf(pod) !== brokenNode).length >= replicas && pods.every((pod) => nodeOf(pod) !== brokenNode);
}

export interface Happening {
  readonly time: number;
  readonly what: "created" | "bound" | "ready" | "deleting" | "gone";
  readonly pod: string;
  readonly node: string;
}

interface PodState {
  readonly name: string;
  readonly node: string;
  readonly isReady: boolean;
  readonly isDeleting: boolean;
}

/** Tells what has changed from one look at the pods to the next. */
export class PodObserver {
  private states = new Map<string, PodState>();

  observe(pods: readonly KubernetesObject[], time: number): Happening[] {
    const happenings: Happening[] = [];
    const next = new Map<string, PodState>();
    for (const pod of pods) {
      const uid = pod.metadata.uid ?? "";
      const before = this.states.get(uid);
      const state = { name: pod.metadata.name, node: nodeOf(pod), isReady: isReady(pod), isDeleting: pod.metadata.deletionTimestamp !== undefined };
      next.set(uid, state);
      const tell = (what: Happening["what"]): void => void happenings.push({ time, what, pod: state.name, node: state.node });
      if (!before) tell("created");
      if (state.node && !before?.node) tell("bound");
      if (state.isReady && !before?.isReady && !state.isDeleting) tell("ready");
      if (state.isDeleting && !before?.isDeleting) tell("deleting");
    }
    for (const [uid, state] of this.states) if (!next.has(uid)) happenings.push({ time, what: "gone", pod: state.name, node: state.node });
    this.states = next;
    return happenings;
  }
}
