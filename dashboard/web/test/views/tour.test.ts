import { describe, expect, it } from "vitest";
import type { KubernetesObject } from "../../src/app/kubernetes";
import { chooseNode, isHealed, manifests, PodObserver, replicasFor, usableNodes, withTourTaint, workload } from "../../src/views/tour/tour";

const ready = { conditions: [{ type: "Ready", status: "True" }] };
const node = (name: string, runtime = "hollow://1.0", spec = {}): KubernetesObject => ({ metadata: { name }, spec, status: { ...ready, nodeInfo: { containerRuntimeVersion: runtime } } });
const pod = (name: string, nodeName: string, isReady = true, metadata = {}): KubernetesObject => ({ metadata: { name, namespace: "n", uid: name, ...metadata }, spec: { nodeName }, status: isReady ? ready : {} });

describe("tour", () => {
  it("fits the cluster", () => {
    const nodes = [node("a"), node("b", "hollow://1.0", { unschedulable: true }), node("c", "hollow://1.0", { taints: [{ key: "x", effect: "NoSchedule" }] })];
    expect(usableNodes(nodes).map((item) => item.metadata.name)).toEqual(["a"]);
    expect(replicasFor(nodes)).toBe(2);
    expect(replicasFor(Array.from({ length: 50 }, (_, index) => node(`n${index}`)))).toBe(6);
    expect(workload([node("a", "process://1.0")]).image).toBe("sampan.local/host");
    expect(workload([node("a", "containerd://2.0")]).image).toContain("pause");
    expect(manifests("t", nodes).map((manifest) => manifest["kind"])).toEqual(["Namespace", "Deployment", "Service"]);
  });

  it("breaks the node where the fewest others suffer", () => {
    const own = [pod("t1", "a"), pod("t2", "b"), pod("t3", "b")];
    const others = [pod("x", "b"), pod("daemon", "a")];
    const tolerant = { ...others[1]!, spec: { nodeName: "a", tolerations: [{ operator: "Exists" }] } };
    expect(chooseNode([node("a"), node("b")], own, [...own, others[0]!, tolerant])).toEqual({ node: "a", pods: 1, bystanders: [] });
    expect(chooseNode([node("a")], own, own)).toBeNull();
  });

  it("knows when the cluster has healed", () => {
    expect(isHealed([pod("1", "a"), pod("2", "b")], 2, "a")).toBe(false);
    expect(isHealed([pod("1", "b"), pod("2", "b", false)], 2, "a")).toBe(false);
    expect(isHealed([pod("1", "b"), pod("2", "b")], 2, "a")).toBe(true);
  });

  it("keeps the other taints of a node", () => {
    const tainted = node("a", "hollow://1.0", { taints: [{ key: "x", effect: "NoSchedule" }] });
    const broken = { ...tainted, spec: { taints: withTourTaint(tainted, true) } };
    expect(broken.spec.taints).toEqual([{ key: "x", effect: "NoSchedule" }, { key: "sampan.dev/tour", value: "broken", effect: "NoExecute" }]);
    expect(withTourTaint(broken, false)).toEqual([{ key: "x", effect: "NoSchedule" }]);
  });

  it("tells what happens to pods", () => {
    const observer = new PodObserver();
    expect(observer.observe([pod("p", "", false)], 1).map((item) => item.what)).toEqual(["created"]);
    expect(observer.observe([pod("p", "a")], 2).map((item) => item.what)).toEqual(["bound", "ready"]);
    expect(observer.observe([pod("p", "a", true, { deletionTimestamp: "t" })], 3).map((item) => item.what)).toEqual(["deleting"]);
    expect(observer.observe([], 4)).toEqual([{ time: 4, what: "gone", pod: "p", node: "a" }]);
  });
});
