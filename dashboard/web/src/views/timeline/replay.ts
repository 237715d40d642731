/** The last minutes of a cluster from the flight recorder: what happened, and where the pods were at a time. */

export interface RecorderRecord {
  readonly number: number;
  /** Seconds since the epoch. */
  readonly time: number;
  readonly component: string;
  readonly action: string;
  readonly subject?: string;
  readonly actor?: string;
  readonly uid?: string;
  readonly outcome?: string;
  /** The state of the pod that a write of its status reports. */
  readonly state?: string;
  readonly took?: number;
}

export const MOST_RECORDS = 20_000;

export type PodPhase = "created" | "bound" | "starting" | "running" | "ready" | "ended" | "deleted";

export interface ReplayedPod {
  readonly key: string;
  /** Empty where no record names it: the pod has none yet, or was bound before the records begin. */
  readonly node: string;
  readonly phase: PodPhase;
  readonly since: number;
  /** Whether the records contain the creation of the pod, so that a missing node means that it had none. */
  readonly isKnownFromBirth: boolean;
}

/** Records that repeat all the time and say nothing: heartbeats, reviews, events. */
const NOISE = /^(leases\.coordination|events|selfsubject|subjectaccessreviews|tokenreviews)/;

export function isNoise(record: RecorderRecord): boolean {
  return NOISE.test(record.subject ?? "");
}

export function merged(before: readonly RecorderRecord[], added: readonly RecorderRecord[]): readonly RecorderRecord[] {
  const last = before[before.length - 1]?.number ?? 0;
  const fresh = added.filter((record) => record.number > last);
  return fresh.length ? [...before, ...fresh].slice(-MOST_RECORDS) : before;
}

const NODE_USER = "system:node:";
const STARTS = new Set(["see and admit", "create cgroups", "create data directories", "mount volumes", "run sandbox", "pull image", "configure container", "start container"]);

/** What a record says about a pod; null where it says nothing. `kubelets` are the nodes whose kubelets have records of their own. */
function podChange(record: RecorderRecord, kubelets: ReadonlySet<string>): { phase: PodPhase; node: string } | null {
  const [, , , subresource] = (record.subject ?? "").split("/");
  const outcome = record.outcome ?? "";
  if (record.component === "kube-scheduler") return record.action === "bind" ? { phase: "bound", node: outcome } : null;
  if (record.component.startsWith("kubelet/")) {
    const node = record.component.slice("kubelet/".length);
    if (record.action === "report status") return reported(outcome, node);
    return STARTS.has(record.action) ? { phase: "starting", node } : null;
  }
  if (record.component !== "apiserver" || !/^2\d\d$/.test(outcome)) return null;
  if (!subresource && record.action === "create") return { phase: "created", node: "" };
  if (!subresource && record.action === "delete") return { phase: "deleted", node: "" };
  // A hollow node writes the status itself and has no records of a kubelet.
  const actor = record.actor ?? "";
  const node = actor.startsWith(NODE_USER) ? actor.slice(NODE_USER.length) : "";
  return subresource === "status" && node && !kubelets.has(node) ? reported(record.state ?? "", node) : null;
}

/** The phase in the state that a node reports, such as "Running, ready". */
function reported(state: string, node: string): { phase: PodPhase; node: string } | null {
  if (state.startsWith("Running, ready")) return { phase: "ready", node };
  if (state.startsWith("Running")) return { phase: "running", node };
  return /^(Succeeded|Failed)/.test(state) ? { phase: "ended", node } : null;
}

const RANK: Readonly<Record<PodPhase, number>> = { created: 0, bound: 1, starting: 2, running: 3, ready: 4, ended: 5, deleted: 6 };

/** Since when everything is known: from the start of the range, unless the recorder begins later or records of the range were dropped. */
export function knownSince(records: readonly RecorderRecord[], start: number, recorderBegin: number | null): number {
  const kept = records.length >= MOST_RECORDS ? (records[0]?.time ?? start) : start;
  return Math.max(start, kept, recorderBegin ?? start);
}

/** The pods that were created or changed until a time. Pods that did not change in the records are not known to them. */
export function podsAt(records: readonly RecorderRecord[], time: number): ReplayedPod[] {
  const pods = new Map<string, ReplayedPod>();
  const kubelets = new Set(records.flatMap(({ component }) => (component.startsWith("kubelet/") ? [component.slice("kubelet/".length)] : [])));
  for (const record of records) {
    if (record.time > time) break;
    const subject = record.subject ?? "";
    if (!subject.startsWith("pods/")) continue;
    const change = podChange(record, kubelets);
    if (!change) continue;
    const key = subject.split("/").slice(1, 3).join("/");
    const before = pods.get(key);
    const isNew = change.phase === "created" || !before;
    const isAdvance = isNew || RANK[change.phase] > RANK[before.phase] || (before.phase === "ready" && change.phase === "running" && change.node !== "");
    if (!isAdvance) continue;
    pods.set(key, { key, phase: change.phase, node: change.node || (isNew ? "" : before.node), since: record.time, isKnownFromBirth: change.phase === "created" || before?.isKnownFromBirth === true });
  }
  return [...pods.values()].filter((pod) => pod.phase !== "deleted" || time - pod.since < 2);
}

/** The place of pods that have no node yet, and of those whose node no record names. */
export const NO_NODE = " ", UNKNOWN_NODE = "?";

/** Pods by node, nodes by name; pods without a node come first, then those whose node is not known. */
export function byNode(pods: readonly ReplayedPod[]): ReadonlyMap<string, readonly ReplayedPod[]> {
  const nodes = new Map<string, ReplayedPod[]>();
  for (const pod of pods) {
    const node = pod.node || (pod.isKnownFromBirth ? NO_NODE : UNKNOWN_NODE);
    nodes.set(node, [...(nodes.get(node) ?? []), pod]);
  }
  return new Map([...nodes].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([node, own]) => [node, own.toSorted((a, b) => (a.key < b.key ? -1 : 1))]));
}

export interface Bucket {
  readonly start: number;
  readonly counts: Readonly<Record<Group, number>>;
}

export type Group = "apiserver" | "scheduler" | "kubelet" | "controller";
export const GROUPS: readonly Group[] = ["apiserver", "scheduler", "kubelet", "controller"];

export function groupOf(record: RecorderRecord): Group {
  if (record.component === "apiserver") return "apiserver";
  if (record.component === "kube-scheduler") return "scheduler";
  return record.component.startsWith("kubelet/") ? "kubelet" : "controller";
}

export function histogram(records: readonly RecorderRecord[], start: number, end: number, count: number): Bucket[] {
  const width = Math.max(1e-6, (end - start) / count);
  const buckets = Array.from({ length: count }, (_, index) => ({ start: start + index * width, counts: { apiserver: 0, scheduler: 0, kubelet: 0, controller: 0 } }));
  for (const record of records) {
    const bucket = buckets[Math.min(count - 1, Math.floor((record.time - start) / width))];
    if (bucket && record.time >= start && record.time <= end) bucket.counts[groupOf(record)] += 1;
  }
  return buckets;
}
