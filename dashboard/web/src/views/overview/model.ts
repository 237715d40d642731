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

export interface Forbiddable {
  readonly forbidden?: boolean;
}

export interface NodesPart extends Forbiddable {
  readonly count: number;
  readonly ready: number;
  readonly unschedulable: number;
  readonly allocatable: Amounts;
  readonly requests: Amounts;
  readonly usage: Amounts | null;
  /** The nodes that need attention first. */
  readonly items: readonly NodeSummary[];
  readonly more: number;
}

export interface WorkloadHealth extends Forbiddable {
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
  readonly pods: Forbiddable & { readonly count: number; readonly phases: Readonly<Record<string, number>>; readonly notReady: number };
  /** By plural name: `deployments`. */
  readonly workloads: Readonly<Record<string, WorkloadHealth>>;
  readonly events: readonly OverviewEvent[];
  readonly eventsForbidden: boolean;
  readonly components: readonly ComponentHealth[];
  /** Absent if the person may not list nodes. */
  readonly runtime?: RuntimeFacts;
  /** Absent if the cluster does not say, or the person may not ask. */
  readonly store?: StoreFacts;
  readonly network: NetworkFacts;
}
