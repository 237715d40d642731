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
  readonly took?: number;
}

export const MOST_RECORDS = 20_000;

export type PodPhase = "created" | "bound" | "starting" | "running" | "ready" | "ended" | "deleted";

export interface ReplayedPod {
  readonly key: string;
  readonly node: string;
  readonly phase: PodPhase;
  readonly since: number;
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

const STARTS = new Set(["see and admit", "create cgroups", "create data directories", "mount volumes", "run sandbox", "pull image", "configure container", "start container"]);

/** What a record says about a pod; null where it says nothing. */
function podChange(record: RecorderRecord): { phase: PodPhase; node: string } | null {
  const [, , , subresource] = (record.subject ?? "").split("/");
  const outcome = record.outcome ?? "";
  if (record.component === "kube-scheduler") return record.action === "bind" ? { phase: "bound", node: outcome } : null;
  if (record.component.startsWith("kubelet/")) {
    const node = record.component.slice("kubelet/".length);
    if (record.action === "report status") {
      if (outcome.startsWith("Running, ready")) return { phase: "ready", node };
      if (outcome.startsWith("Running")) return { phase: "running", node };
      return /^(Succeeded|Failed)/.test(outcome) ? { phase: "ended", node } : null;
    }
    return STARTS.has(record.action) ? { phase: "starting", node } : null;
  }
  if (record.component !== "apiserver" || !/^2\d\d$/.test(outcome)) return null;
  if (!subresource && record.action === "create") return { phase: "created", node: "" };
  if (!subresource && record.action === "delete") return { phase: "deleted", node: "" };
  // A hollow node writes the status itself and has no records of a kubelet.
  const isOfNode = subresource === "status" && record.action === "patch" && (record.actor ?? "").startsWith("system:node:");
  return isOfNode ? { phase: "running", node: "" } : null;
}

const RANK: Readonly<Record<PodPhase, number>> = { created: 0, bound: 1, starting: 2, running: 3, ready: 4, ended: 5, deleted: 6 };

/** The pods that were there at a time, as far as the records reach back. */
export function podsAt(records: readonly RecorderRecord[], time: number): ReplayedPod[] {
  const pods = new Map<string, ReplayedPod>();
  for (const record of records) {
    if (record.time > time) break;
    const subject = record.subject ?? "";
    if (!subject.startsWith("pods/")) continue;
    const change = podChange(record);
    if (!change) continue;
    const key = subject.split("/").slice(1, 3).join("/");
    const before = pods.get(key);
    const isNew = change.phase === "created" || !before;
    const isAdvance = isNew || RANK[change.phase] > RANK[before.phase] || (before.phase === "ready" && change.phase === "running" && change.node !== "");
    if (!isAdvance) continue;
    pods.set(key, { key, phase: change.phase, node: change.node || (isNew ? "" : before.node), since: record.time });
  }
  return [...pods.values()].filter((pod) => pod.phase !== "deleted" || time - pod.since < 2);
}

/** Pods by node, nodes by name; pods without a node come first. */
export function byNode(pods: readonly ReplayedPod[]): ReadonlyMap<string, readonly ReplayedPod[]> {
  const nodes = new Map<string, ReplayedPod[]>();
  for (const pod of pods) nodes.set(pod.node, [...(nodes.get(pod.node) ?? []), pod]);
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
