/** What the server computes for the overview, from what the person may list. */
export interface ObjectReference {
  readonly group?: string;
  readonly version?: string;
  readonly resource?: string;
  readonly apiVersion?: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

export interface Problem {
  readonly severity: "critical" | "warning";
  readonly object: ObjectReference;
  readonly reason: string;
  readonly message: string;
  /** The next step. */
  readonly kubectl: string;
}

/** Amounts in base units: cores, bytes, pods. */
export interface Amounts {
  readonly cpu?: number;
  readonly memory?: number;
  readonly pods?: number;
}

export interface NodeSummary {
  readonly name: string;
  readonly ready: boolean;
  readonly unschedulable: boolean;
  readonly pressures: readonly string[];
  readonly allocatable: Amounts;
  readonly requests: Amounts;
  readonly usage: Amounts | null;
}

/** A kind that the server cannot read for the person; events among them. */
export interface UnreadableKind {
  /** The plural name: `deployments`. */
  readonly resource: string;
  /** Whether the person may not list the kind. Otherwise the requests fail. */
  readonly forbidden: boolean;
  readonly message: string;
}

export interface NodesPart {
  readonly count: number;
  /** Machines that the nodes are on: the CPU and memory of a machine count once in the sums. */
  readonly machines: number;
  readonly ready: number;
  readonly unschedulable: number;
  readonly allocatable: Amounts;
  readonly requests: Amounts;
  readonly usage: Amounts | null;
  /** The nodes that need attention first. */
  readonly items: readonly NodeSummary[];
  readonly more: number;
}

export interface WorkloadHealth {
  readonly count: number;
  readonly healthy: number;
  readonly degraded: number;
  readonly failed: number;
}

export interface OverviewEvent {
  readonly key: string;
  readonly time: string;
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly object: ObjectReference;
}

export interface ComponentHealth {
  readonly name: string;
  readonly healthy: boolean;
  readonly message: string;
}

/** The number of nodes by container runtime, kubelet and platform. */
export interface RuntimeFacts {
  readonly containerRuntimes: Readonly<Record<string, number>>;
  readonly kubelets: Readonly<Record<string, number>>;
  readonly platforms: Readonly<Record<string, number>>;
}

export interface StoreFacts {
  readonly kind: string;
  readonly sizeBytes: number;
  readonly objects: number;
  readonly objectBytes: number;
  readonly watchers: number;
  readonly revision: number;
  readonly writeFailure: string;
  readonly largest: readonly { readonly resource: string; readonly objects: number; readonly bytes: number }[];
}

export interface NetworkFacts {
  readonly serviceCidrs?: readonly string[];
  readonly dns?: readonly string[];
  readonly nodesWithPodCidr?: number;
}

export interface Overview {
  /** False while the server still reads the lists of a large cluster: then numbers grow. */
  readonly isComplete: boolean;
  readonly problems: readonly Problem[];
  readonly problemCount: number;
  readonly nodes: NodesPart;
  readonly pods: { readonly count: number; readonly phases: Readonly<Record<string, number>>; readonly notReady: number };
  /** By plural name: `deployments`. */
  readonly workloads: Readonly<Record<string, WorkloadHealth>>;
  readonly events: readonly OverviewEvent[];
  readonly unreadable: readonly UnreadableKind[];
  readonly components: readonly ComponentHealth[];
  /** Absent if the person may not list nodes. */
  readonly runtime?: RuntimeFacts;
  /** Absent if the cluster does not say, or the person may not ask. */
  readonly store?: StoreFacts;
  readonly network: NetworkFacts;
}

/** What the overview may say about problems: all is well only where everything that has problems could be read. */
export function verdict(overview: Pick<Overview, "isComplete" | "problems" | "unreadable">): "counting" | "problems" | "well" | "partly" | "unknown" {
  if (overview.problems.length > 0) return "problems";
  const unread = unreadOf(overview);
  if (unread.some((kind) => kind.resource === "pods")) return "unknown";
  if (unread.length > 0) return "partly";
  return overview.isComplete ? "well" : "counting";
}

/** The kinds with problems of their own that could not be read. Events only repeat what these tell. */
export function unreadOf({ unreadable }: Pick<Overview, "unreadable">): readonly UnreadableKind[] {
  return unreadable.filter((kind) => kind.resource !== "events");
}
