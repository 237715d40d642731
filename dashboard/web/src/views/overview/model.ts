/** What the server computes for the overview. A part that the person may not see has `forbidden`. */
export interface ObjectReference {
  readonly group?: string;
  readonly version?: string;
  readonly apiVersion?: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

export interface Problem {
  readonly object: ObjectReference;
  readonly reason: string;
  readonly message: string;
  readonly severity?: "error" | "warning";
  readonly since?: string;
  readonly next?: { readonly text?: string; readonly command?: string; readonly tab?: string };
}

/** Amounts in base units: cores, bytes, pods. */
export interface Amounts {
  readonly cpu?: number;
  readonly memory?: number;
  readonly pods?: number;
}

export interface NodeSummary {
  readonly name: string;
  readonly status: string;
  readonly capacity: Amounts;
  readonly requests?: Amounts;
  readonly usage?: Amounts;
}

export interface WorkloadHealth {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly kind: string;
  readonly healthy: number;
  readonly progressing: number;
  readonly failed: number;
}

export interface OverviewEvent {
  readonly time: string;
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly count?: number;
  readonly object: ObjectReference;
}

export interface ComponentHealth {
  readonly name: string;
  readonly healthy: boolean;
  readonly message?: string;
}

export interface Part<T> {
  readonly forbidden?: boolean;
  readonly items?: readonly T[];
  /** How many there are, if not all are in `items`. */
  readonly total?: number;
}

export interface Overview {
  readonly problems: Part<Problem>;
  readonly nodes: Part<NodeSummary>;
  readonly workloads: Part<WorkloadHealth>;
  readonly events: Part<OverviewEvent>;
  readonly components: Part<ComponentHealth>;
  readonly store?: Readonly<Record<string, string | number>>;
  readonly runtime?: Readonly<Record<string, string | number>>;
  readonly network?: Readonly<Record<string, string | number>>;
}
