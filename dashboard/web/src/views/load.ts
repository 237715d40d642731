/** Hooks for values that come later: a request that may be repeated, and a value that waits until typing stops. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { asApiError, type ApiError } from "../app/http";

export interface Loaded<T> {
  readonly value: T | undefined;
  readonly error: ApiError | null;
  readonly reload: () => void;
}

/** Loads when the dependencies change, and every `intervalMs` while the page is visible. The last value stays while it reloads. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, dependencies: readonly unknown[], intervalMs = 0): Loaded<T> {
  const [state, setState] = useState<{ value: T | undefined; error: ApiError | null }>({ value: undefined, error: null });
  const [tick, setTick] = useState(0);
  const reload = useCallback(() => setTick((before) => before + 1), []);
  const key = JSON.stringify(dependencies);
  const lastKey = useRef(key);
  useEffect(() => {
    const controller = new AbortController();
    if (lastKey.current !== key) setState({ value: undefined, error: null });
    lastKey.current = key;
    load(controller.signal).then(
      (value) => { if (!controller.signal.aborted) setState({ value, error: null }); },
      (reason: unknown) => { if (!controller.signal.aborted) setState((before) => ({ value: before.value, error: asApiError(reason) })); },
    );
    return () => controller.abort();
  }, [key, tick]);
  useEffect(() => {
    if (!intervalMs) return undefined;
    const timer = window.setInterval(() => { if (!document.hidden) reload(); }, intervalMs);
    return () => window.clearInterval(timer);
  }, [intervalMs, reload]);
  return { ...state, reload };
}

/** The value after it has not changed for some time. */
export function useDebounced<T>(value: T, delayMs: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), delayMs);
    return () => window.clearTimeout(timer);
  }, [value, delayMs]);
  return settled;
}

/** Lets the browser save text or bytes under a name. */
export function saveFile(name: string, content: BlobPart, type = "application/octet-stream"): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
