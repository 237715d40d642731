/** A status word with a colour and a shape, so that colour alone never carries the meaning. */
export type Level = "good" | "warning" | "bad" | "progress" | "neutral";

const WORDS: Readonly<Record<Exclude<Level, "neutral">, RegExp>> = {
  bad: /^Err|Error|CrashLoop|BackOff|Fail|Evicted|OOM|NotReady|Lost|Invalid|Unknown|Unhealthy|Denied|Exceeded|Dead|Unschedulable/i,
  warning: /Warning|SchedulingDisabled|Degraded|Suspended|Released|NoSpace|Pressure|Missing/i,
  progress: /Pending|Creating|Init:|Terminating|Waiting|Progress|Pulling|Starting|Binding|Initializing/i,
  good: /^(Running|Ready|Active|Bound|Available|Completed?|Succeeded|Healthy|True|Approved.*|Established|Normal|OK)$/i,
};

export function statusLevel(text: string): Level {
  for (const level of ["bad", "warning", "progress", "good"] as const) if (WORDS[level].test(text)) return level;
  return "neutral";
}

export function Status({ text, level }: { text: string; level?: Level }) {
  return <span class={`status ${level ?? statusLevel(text)}`}>{text}</span>;
}
