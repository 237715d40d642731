/** Versions of objects that this page has seen, for the history: a few per object, a few objects. */
import type { KubernetesObject } from "../../app/kubernetes";
import { differences, type Difference } from "./differences";

export interface SeenChange {
  readonly at: number;
  readonly resourceVersion: string;
  readonly differences: readonly Difference[];
}

interface Seen {
  latest: KubernetesObject;
  changes: readonly SeenChange[];
}

const OBJECTS = 50;
const CHANGES = 100;
const seen = new Map<string, Seen>();

export function recordVersion(object: KubernetesObject): void {
  const uid = object.metadata.uid ?? "";
  const known = seen.get(uid);
  if (!known) {
    seen.set(uid, { latest: object, changes: [] });
    if (seen.size > OBJECTS) seen.delete(seen.keys().next().value ?? "");
    return;
  }
  if (known.latest.metadata.resourceVersion === object.metadata.resourceVersion) return;
  const changed = differences(known.latest, object);
  known.latest = object;
  if (changed.length > 0) known.changes = [{ at: Date.now(), resourceVersion: object.metadata.resourceVersion ?? "", differences: changed }, ...known.changes].slice(0, CHANGES);
}

export function seenChanges(uid: string): readonly SeenChange[] {
  return seen.get(uid)?.changes ?? [];
}
