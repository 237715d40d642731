/** Shows a component that is loaded when it is first needed. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ErrorBox, Loading } from "../components";
import { asApiError, type ApiError } from "./http";

interface Module<P> {
  readonly default: ComponentType<P>;
}

const loaded = new Map<() => Promise<Module<never>>, ComponentType<never>>();

const RETRY_MS = 500;

/** A module whose load was interrupted is loaded once more. */
function loadAgain<P>(load: () => Promise<Module<P>>): Promise<Module<P>> {
  return load().catch(() => new Promise((resolve) => window.setTimeout(resolve, RETRY_MS)).then(load));
}

export function Lazy<P extends object>({ load, props }: { load: () => Promise<Module<P>>; props: P }) {
  const cache = loaded as unknown as Map<() => Promise<Module<P>>, ComponentType<P>>;
  const [, setTick] = useState(0);
  const [error, setError] = useState<ApiError | null>(null);
  const Component = cache.get(load);
  useEffect(() => {
    if (cache.has(load)) return undefined;
    let isCurrent = true;
    loadAgain(load).then(
      (module) => {
        cache.set(load, module.default);
        if (isCurrent) setTick((tick) => tick + 1);
      },
      (reason: unknown) => { if (isCurrent) setError(asApiError(reason)); },
    );
    return () => { isCurrent = false; };
  }, [load]);
  if (Component) return <Component {...props} />;
  return error ? <ErrorBox error={error} onRetry={() => window.location.reload()} /> : <Loading />;
}
