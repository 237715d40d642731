/** Which pods a drain evicts, and how far it is. */
import { at, list, type KubernetesObject } from "../../app/kubernetes";

export type EvictionState = "waiting" | "evicting" | "refused" | "terminating" | "gone" | "failed";

export interface PodEviction {
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly state: EvictionState;
  readonly message: string;
}

export type KeptReason = "daemonSet" | "mirror" | "finished";
export type BlockReason = "unmanaged" | "emptyDir";

export interface DrainPlan {
  readonly evictions: readonly PodEviction[];
  readonly kept: readonly { readonly key: string; readonly reason: KeptReason }[];
  /** Pods that are evicted only when the person says so. */
  readonly blocked: readonly { readonly key: string; readonly reason: BlockReason }[];
}

export interface DrainOptions {
  readonly deletesEmptyDir: boolean;
  readonly force: boolean;
}

/** The same rules as `kubectl drain --ignore-daemonsets`. */
export function planDrain(pods: readonly KubernetesObject[], options: DrainOptions): DrainPlan {
  const evictions: PodEviction[] = [];
  const kept: { key: string; reason: KeptReason }[] = [];
  const blocked: { key: string; reason: BlockReason }[] = [];
  for (const pod of pods) {
    const { name, namespace = "", uid = "" } = pod.metadata;
    const key = `${namespace}/${name}`;
    const phase = at(pod, "status", "phase");
    const controller = pod.metadata.ownerReferences?.find((owner) => owner.controller);
    const isFinished = phase === "Succeeded" || phase === "Failed";
    if (pod.metadata.annotations?.["kubernetes.io/config.mirror"] !== undefined) kept.push({ key, reason: "mirror" });
    else if (controller?.kind === "DaemonSet" && !isFinished) kept.push({ key, reason: "daemonSet" });
    else {
      const hasEmptyDir = list(at(pod, "spec", "volumes")).some((volume) => at(volume, "emptyDir") !== undefined);
      if (!controller && !isFinished && !options.force) blocked.push({ key, reason: "unmanaged" });
      else if (hasEmptyDir && !isFinished && !options.deletesEmptyDir) blocked.push({ key, reason: "emptyDir" });
      else evictions.push({ key, namespace, name, uid, state: "waiting", message: "" });
    }
  }
  return { evictions, kept, blocked };
}

export function drainProgress(evictions: readonly PodEviction[]): { readonly gone: number; readonly refused: number; readonly share: number } {
  const gone = evictions.filter((eviction) => eviction.state === "gone").length;
  const refused = evictions.filter((eviction) => eviction.state === "refused").length;
  return { gone, refused, share: evictions.length ? gone / evictions.length : 1 };
}
