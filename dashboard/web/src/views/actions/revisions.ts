/** Earlier templates of a workload: ReplicaSets of a Deployment, ControllerRevisions of a StatefulSet or DaemonSet. */
import { at, record, type KubernetesObject } from "../../app/kubernetes";
import { toYaml } from "../editor/yaml";
import type { Patch } from "./PatchDialog";

export interface Revision {
  readonly number: number;
  readonly name: string;
  readonly created: string;
  readonly cause: string;
  readonly template: unknown;
  readonly templateYaml: string;
  readonly patch: Patch;
}

const HASH = "pod-template-hash";

function ownedBy(object: KubernetesObject, uid: string | undefined): boolean {
  return object.metadata.ownerReferences?.some((owner) => owner.controller && owner.uid === uid) ?? false;
}

/** Newest first. */
export function revisionsOfDeployment(deployment: KubernetesObject, replicaSets: readonly KubernetesObject[]): Revision[] {
  const own = replicaSets.filter((item) => ownedBy(item, deployment.metadata.uid));
  return sorted(own.map((replicaSet) => {
    const template = withoutHash(at(replicaSet, "spec", "template"));
    const annotations = replicaSet.metadata.annotations ?? {};
    return revision(replicaSet, Number(annotations["deployment.kubernetes.io/revision"] ?? 0), template, {
      mediaType: "application/json-patch+json",
      body: [{ op: "replace", path: "/spec/template", value: template }],
    });
  }));
}

export function revisionsOfControllerRevisions(owner: KubernetesObject, revisions: readonly KubernetesObject[]): Revision[] {
  const own = revisions.filter((item) => ownedBy(item, owner.metadata.uid));
  return sorted(own.map((item) => {
    const { $patch: _patch, ...template } = record(at(item, "data", "spec", "template"));
    return revision(item, Number(item["revision"] ?? 0), template, { mediaType: "application/strategic-merge-patch+json", body: item["data"] });
  }));
}

function revision(object: KubernetesObject, number: number, template: unknown, patch: Patch): Revision {
  return {
    number,
    name: object.metadata.name,
    created: object.metadata.creationTimestamp ?? "",
    cause: object.metadata.annotations?.["kubernetes.io/change-cause"] ?? "",
    template,
    templateYaml: toYaml(template),
    patch,
  };
}

function sorted(revisions: readonly Revision[]): Revision[] {
  return revisions.toSorted((a, b) => b.number - a.number);
}

function withoutHash(template: unknown): unknown {
  const { metadata, ...rest } = record(template);
  const { labels, ...others } = record(metadata);
  const { [HASH]: _hash, ...kept } = record(labels);
  return { ...rest, metadata: { ...others, labels: kept } };
}
