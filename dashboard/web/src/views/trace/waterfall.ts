/** The birth of a pod as rows of a waterfall. */

export interface TraceStep {
  readonly name: string;
  readonly component: string;
  readonly startSeconds: number;
  readonly durationSeconds: number;
  readonly isOnCriticalPath: boolean;
  readonly number?: number;
  readonly detail?: string;
}

export interface Trace {
  readonly start: number;
  readonly steps: readonly TraceStep[];
  readonly runningAfterSeconds?: number;
  readonly readyAfterSeconds?: number;
}

export type Lane = "apiserver" | "scheduler" | "kubelet" | "controller" | "wait";

export interface WaterfallRow {
  readonly step: TraceStep;
  readonly lane: Lane;
  /** In percent of the whole. */
  readonly left: number;
  readonly width: number;
  /** The part of the time to Running that the step accounts for, from 0 to 1. */
  readonly share: number;
}

const NARROWEST = 0.4;

export function laneOf(step: TraceStep): Lane {
  if (step.name === "wait") return "wait";
  if (step.component === "apiserver") return "apiserver";
  if (step.component === "kube-scheduler") return "scheduler";
  return step.component.startsWith("kubelet/") ? "kubelet" : "controller";
}

/** Steps after the pod became ready are left out unless `isWhole`: a pod that runs for days has one birth. */
export function bornSteps(trace: Trace, isWhole: boolean): readonly TraceStep[] {
  const end = trace.readyAfterSeconds ?? trace.runningAfterSeconds;
  return isWhole || end === undefined ? trace.steps : trace.steps.filter((step) => step.startSeconds <= end);
}

const LONGEST_OWNER_WAIT_S = 10;

/** A pod that replaces another is born long after its owner: then the timeline starts with the pod itself. */
export function fromBirth(trace: Trace): Trace {
  const shift = trace.steps.find((step) => step.number === 1)?.startSeconds ?? 0;
  if (shift < LONGEST_OWNER_WAIT_S) return trace;
  const steps = trace.steps.filter((step) => step.startSeconds >= shift).map((step) => ({ ...step, startSeconds: step.startSeconds - shift }));
  const { runningAfterSeconds: running, readyAfterSeconds: ready } = trace;
  return {
    start: trace.start + shift, steps,
    ...(running === undefined ? {} : { runningAfterSeconds: running - shift }), ...(ready === undefined ? {} : { readyAfterSeconds: ready - shift }),
  };
}

export function waterfall(trace: Trace, isWhole = false): WaterfallRow[] {
  const steps = bornSteps(trace, isWhole);
  const total = Math.max(1e-6, ...steps.map((step) => step.startSeconds + step.durationSeconds));
  const running = trace.runningAfterSeconds ?? 0;
  return steps.map((step) => {
    const left = Math.min(100 - NARROWEST, (step.startSeconds / total) * 100);
    return {
      step,
      lane: laneOf(step),
      left,
      width: Math.min(100 - left, Math.max(NARROWEST, (step.durationSeconds / total) * 100)),
      share: step.isOnCriticalPath && running > 0 ? step.durationSeconds / running : 0,
    };
  });
}

export function formatSeconds(seconds: number): string {
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  return seconds < 1 ? `${(seconds * 1000).toFixed(0)} ms` : `${seconds.toFixed(2)} s`;
}
