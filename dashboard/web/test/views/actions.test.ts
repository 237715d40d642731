import { describe, expect, it } from "vitest";
import type { KubernetesObject } from "../../src/app/kubernetes";
import type { Resource } from "../../src/app/resources";
import { drainProgress, planDrain } from "../../src/views/actions/evictions";

import { countByKind, ownedBy } from "../../src/views/actions/dependents";
import { revisionsOfControllerRevisions, revisionsOfDeployment } from "../../src/views/actions/revisions";
import { restorable } from "../../src/views/actions/undo";

function object(name: string, metadata: object = {}, rest: object = {}): KubernetesObject {
  return { metadata: { name, namespace: "n", uid: name, ...metadata }, ...rest } as KubernetesObject;
}
const owned = (uid: string, kind = "ReplicaSet") => ({ ownerReferences: [{ apiVersion: "apps/v1", kind, name: uid, uid, controller: true }] });

describe("drain", () => {
  const pods = [
    object("web", owned("rs")),
    object("agent", owned("ds", "DaemonSet")),
    object("static", { annotations: { "kubernetes.io/config.mirror": "x" } }),
    object("bare"),
    object("cache", owned("rs"), { spec: { volumes: [{ name: "v", emptyDir: {} }] } }),
    object("done", {}, { status: { phase: "Succeeded" } }),
  ];

  it("keeps to the rules of kubectl drain", () => {
    const plan = planDrain(pods, { deletesEmptyDir: false, force: false });
    expect(plan.evictions.map((eviction) => eviction.name)).toEqual(["web", "done"]);
    expect(plan.kept).toEqual([{ key: "n/agent", reason: "daemonSet" }, { key: "n/static", reason: "mirror" }]);
    expect(plan.blocked).toEqual([{ key: "n/bare", reason: "unmanaged" }, { key: "n/cache", reason: "emptyDir" }]);
    expect(planDrain(pods, { deletesEmptyDir: true, force: true }).evictions.length).toBe(4);
  });

  it("counts progress", () => {
    const [first] = planDrain(pods, { deletesEmptyDir: false, force: false }).evictions;
    expect(drainProgress([{ ...first!, state: "gone" }, { ...first!, state: "refused" }])).toEqual({ gone: 1, refused: 1, share: 0.5 });
    expect(drainProgress([]).share).toBe(1);
  });
});

describe("owner tree", () => {
  const kind = (name: string): Resource => ({ kind: name }) as Resource;
  it("has everything below the object, each once", () => {
    const objects = [
      { resource: kind("Pod"), object: object("pod-1", owned("rs")) },
      { resource: kind("ReplicaSet"), object: object("rs", owned("deployment")) },
      { resource: kind("Pod"), object: object("pod-2", owned("rs")) },
      { resource: kind("Pod"), object: object("other") },
    ];
    const dependents = ownedBy("deployment", objects);
    expect(dependents.map((item) => [item.object.metadata.name, item.depth])).toEqual([["rs", 0], ["pod-1", 1], ["pod-2", 1]]);
    expect([...countByKind(dependents)]).toEqual([["ReplicaSet", 1], ["Pod", 2]]);
  });

  it("ends at a cycle", () => {
    expect(ownedBy("a", [{ resource: kind("X"), object: object("b", owned("a")) }, { resource: kind("X"), object: object("a", owned("b")) }]).length).toBe(1);
  });
});

describe("revisions", () => {
  const template = (image: string, labels = {}) => ({ metadata: { labels: { app: "web", ...labels } }, spec: { containers: [{ name: "c", image }] } });

  it("of a Deployment are its ReplicaSets, newest first", () => {
    const set = (name: string, revision: string, image: string) =>
      object(name, { ...owned("web"), annotations: { "deployment.kubernetes.io/revision": revision } }, { spec: { template: template(image, { "pod-template-hash": name }) } });
    const revisions = revisionsOfDeployment(object("web"), [set("a", "1", "nginx:1"), set("b", "10", "nginx:2"), object("foreign")]);
    expect(revisions.map((item) => item.number)).toEqual([10, 1]);
    expect(revisions[1]?.patch.body).toEqual([{ op: "replace", path: "/spec/template", value: template("nginx:1") }]);
  });

  it("of a StatefulSet are patches", () => {
    const data = { spec: { template: { $patch: "replace", ...template("nginx:1") } } };
    const [revision] = revisionsOfControllerRevisions(object("db"), [object("db-1", owned("db", "StatefulSet"), { revision: 3, data })]);
    expect(revision?.number).toBe(3);
    expect(revision?.templateYaml).not.toContain("$patch");
    expect(revision?.patch.body).toBe(data);
  });
});

describe("undo", () => {
  it("writes the object again without what the server sets", () => {
    const before = object("web", { resourceVersion: "5", creationTimestamp: "t", managedFields: [] }, { spec: { replicas: 1 }, status: { x: 1 } });
    expect(restorable(before, true)).toEqual({ metadata: { name: "web", namespace: "n" }, spec: { replicas: 1 } });
    expect(restorable(before, false)).toMatchObject({ metadata: { uid: "web" } });
    expect(restorable(before, false)["metadata"]).not.toHaveProperty("resourceVersion");
  });
});
