/** The birth of a pod as rows of a waterfall. */

export interface TraceStep {
  readonly name: string;
  readonly component: string;
  readonly startSeconds: number;
  readonly durationSeconds: number;
  readonly isOnCriticalPath: boolean;
  readonly number?: number;
  readonly detail?: string;
  readonly parts?: readonly TracePart[];
}

/** A part of a step, such as an admission plugin or webhook. */
export interface TracePart {
  readonly name: string;
  readonly startSeconds: number;
  readonly durationSeconds: number;
}

export interface Trace {
  readonly start: number;
  readonly steps: readonly TraceStep[];
  readonly runningAfterSeconds?: number;
  readonly readyAfterSeconds?: number;
  readonly publishedAfterSeconds?: number;
  /** When the flight recorder begins, in seconds since the epoch; null if it has no records. */
  readonly recorderBegin?: number | null;
}

/** Whether the records contain the request that created the pod. Otherwise they say what happened later, such as after a restart of the server, and no duration since the creation is known. */
export function hasBirth(trace: Trace): boolean {
  return trace.steps.some((step) => step.number === 1);
}

export type Lane = "apiserver" | "scheduler" | "kubelet" | "controller" | "network" | "wait";

export interface WaterfallRow {
  readonly step: TraceStep;
  readonly lane: Lane;
  /** In percent of the whole. */
  readonly left: number;
  readonly width: number;
  /** The part of the time to Running that the step accounts for, from 0 to 1. */
  readonly share: number;
  readonly isPart: boolean;
}

const NARROWEST = 0.4;

export function laneOf(step: TraceStep): Lane {
  if (step.name === "wait") return "wait";
  if (step.component === "apiserver") return "apiserver";
  if (step.component === "kube-scheduler") return "scheduler";
  if (step.component.startsWith("kubelet/")) return "kubelet";
  return step.component === "dns" || step.component.startsWith("kube-proxy") ? "network" : "controller";
}

const FIRST_PUBLICATION = 12;

/** Steps after the pod became ready and its services led to it are left out unless `isWhole`: a pod that runs for days has one birth. */
export function bornSteps(trace: Trace, isWhole: boolean): readonly TraceStep[] {
  const end = trace.readyAfterSeconds ?? trace.runningAfterSeconds;
  if (isWhole || end === undefined) return trace.steps;
  const last = Math.max(end, trace.publishedAfterSeconds ?? 0);
  return trace.steps.filter((step) => step.startSeconds <= end || ((step.number ?? 0) >= FIRST_PUBLICATION && step.startSeconds <= last));
}

const LONGEST_OWNER_WAIT_S = 10;

/** A pod that replaces another is born long after its owner: then the timeline starts with the pod itself. */
export function fromBirth(trace: Trace): Trace {
  const shift = trace.steps.find((step) => step.number === 1)?.startSeconds ?? 0;
  if (shift < LONGEST_OWNER_WAIT_S) return trace;
  const moved = <T extends TracePart>(step: T): T => ({ ...step, startSeconds: step.startSeconds - shift });
  const steps = trace.steps.filter((step) => step.startSeconds >= shift).map((step) => ({ ...moved(step), ...(step.parts ? { parts: step.parts.map(moved) } : {}) }));
  const { runningAfterSeconds: running, readyAfterSeconds: ready, publishedAfterSeconds: published } = trace;
  return {
    start: trace.start + shift, steps,
    ...(running === undefined ? {} : { runningAfterSeconds: running - shift }), ...(ready === undefined ? {} : { readyAfterSeconds: ready - shift }),
    ...(published === undefined ? {} : { publishedAfterSeconds: published - shift }),
  };
}

const SHORTEST_PART_S = 0.001;

/** Parts shorter than a millisecond are left out unless `hasAllParts`; calls of webhooks are always shown. */
function shownParts(step: TraceStep, hasAllParts: boolean): TraceStep[] {
  const parts = (step.parts ?? []).filter((part) => hasAllParts || part.durationSeconds >= SHORTEST_PART_S || part.name.startsWith("webhook "));
  return parts.map((part) => ({ ...part, component: step.component, isOnCriticalPath: false }));
}

export function waterfall(trace: Trace, isWhole = false, hasAllParts = false): WaterfallRow[] {
  const steps = bornSteps(trace, isWhole);
  const total = Math.max(1e-6, ...steps.map((step) => step.startSeconds + step.durationSeconds));
  const running = trace.runningAfterSeconds ?? 0;
  const row = (step: TraceStep, isPart: boolean): WaterfallRow => {
    const left = Math.min(100 - NARROWEST, (step.startSeconds / total) * 100);
    return {
      step,
      lane: laneOf(step),
      left,
      width: Math.min(100 - left, Math.max(NARROWEST, (step.durationSeconds / total) * 100)),
      share: step.isOnCriticalPath && running > 0 ? step.durationSeconds / running : 0,
      isPart,
    };
  };
  return steps.flatMap((step) => [row(step, false), ...shownParts(step, hasAllParts).map((part) => row(part, true))]);
}

export function formatSeconds(seconds: number): string {
  if (seconds > 0 && seconds < 0.0001) return `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  return seconds < 1 ? `${(seconds * 1000).toFixed(0)} ms` : `${seconds.toFixed(2)} s`;
}
