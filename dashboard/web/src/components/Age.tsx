import { useComputed } from "@preact/signals";
import { age, formatTime, now } from "../app/time";

/** How long ago, as kubectl writes it; the full time is in the title. Only its text changes as time goes by. */
export function Age({ timestamp }: { timestamp: string | undefined }) {
  const current = useAgeText(timestamp);
  if (!timestamp) return <span class="muted">–</span>;
  return <time dateTime={timestamp} title={formatTime(timestamp)}>{current}</time>;
}

function useAgeText(timestamp: string | undefined) {
  return useComputed(() => age(timestamp, now.value));
}
