import { describe, expect, it } from "vitest";
import type { KubernetesObject, TableColumn } from "../../src/app/kubernetes";
import { isOfPerson } from "../../src/views/audit";
import type { Row } from "../../src/app/stream";
import { around, buildGraph, type MapPod, selects } from "../../src/views/map/graph";
import { podReader } from "../../src/views/map/pods";
import { crossings, layout } from "../../src/views/map/layout";
import { controllerState, sortControllers } from "../../src/views/queues";
import { matrix } from "../../src/views/schedule/matrix";
import { byNode, histogram, isNoise, knownSince, merged, MOST_RECORDS, podsAt, type RecorderRecord, UNKNOWN_NODE } from "../../src/views/timeline/replay";
import { formatSeconds, fromBirth, hasBirth, waterfall } from "../../src/views/trace/waterfall";

function object(name: string, metadata: object = {}, rest: object = {}): KubernetesObject {
  return { metadata: { name, namespace: "n", uid: name, ...metadata }, ...rest } as KubernetesObject;
}

describe("waterfall", () => {
  const step = (name: string, component: string, startSeconds: number, durationSeconds: number, isOnCriticalPath = true) => ({ name, component, startSeconds, durationSeconds, isOnCriticalPath });
  const trace = {
    start: 0, runningAfterSeconds: 4, readyAfterSeconds: 4,
    steps: [step("store the pod", "apiserver", 0, 1), step("wait", "kube-scheduler", 1, 2), step("start container", "kubelet/a", 3, 1), step("later", "apiserver", 9, 1, false)],
  };
  it("places the steps until the pod is ready", () => {
    const rows = waterfall(trace);
    expect(rows.map((row) => [row.lane, row.left, row.width, row.share])).toEqual([["apiserver", 0, 25, 0.25], ["wait", 25, 50, 0.5], ["kubelet", 75, 25, 0.25]]);
    expect(waterfall(trace, true).length).toBe(4);
    const late = { start: 0, runningAfterSeconds: 101, steps: [step("create deployments", "apiserver", 0, 1), { ...step("store the pod", "apiserver", 100, 1), number: 1 }] };
    expect(fromBirth(late)).toMatchObject({ start: 100, runningAfterSeconds: 1, steps: [{ startSeconds: 0 }] });
    expect(fromBirth(trace)).toBe(trace);
    expect([hasBirth(late), hasBirth(trace)]).toEqual([true, false]);
    const part = (name: string, durationSeconds: number) => ({ name, startSeconds: 100.1, durationSeconds });
    const admitted = { ...late, readyAfterSeconds: 101, publishedAfterSeconds: 101.5, steps: [{ ...late.steps[1]!, number: 1, parts: [part("Priority", 0.0001), part("webhook a.example.com", 0.0001), part("write to the store", 0.5)] }, { ...step("add to DNS", "dns", 101.5, 0, false), number: 14 }, { ...step("add to DNS", "dns", 900, 0, false), number: 14 }] };
    expect(waterfall(fromBirth(admitted)).map((row) => [row.step.name, row.lane, row.isPart])).toEqual([["store the pod", "apiserver", false], ["webhook a.example.com", "apiserver", true], ["write to the store", "apiserver", true], ["add to DNS", "network", false]]);
    expect(waterfall(fromBirth(admitted), false, true).length).toBe(5);
    expect([formatSeconds(0), formatSeconds(0.00003), formatSeconds(0.0012), formatSeconds(0.5), formatSeconds(2)]).toEqual(["0.0 ms", "30 µs", "1.2 ms", "500 ms", "2.00 s"]);
  });
});

describe("scheduling matrix", () => {
  const explanation = {
    scheduler: "default-scheduler", time: 0, node: "b", best: "a", filters: ["Taints", "Fit"],
    nodes: [
      { name: "c", fits: false, refusals: [{ plugin: "Fit", reasons: ["Insufficient cpu"] }] },
      { name: "a", fits: true, total: 150, scores: [{ plugin: "Fit", score: 50, weight: 2 }, { plugin: "Same", score: 50, weight: 1 }] },
      { name: "b", fits: true, total: 90, scores: [{ plugin: "Fit", score: 20, weight: 2 }, { plugin: "Same", score: 50, weight: 1 }] },
    ],
  };
  it("has the bound node first and leaves out plugins that decide nothing", () => {
    const result = matrix(explanation);
    expect(result.filters).toEqual(["Fit"]);
    expect(result.scores.map((column) => column.plugin)).toEqual(["Fit"]);
    expect(result.rows.map((row) => [row.node, row.isBound, row.isBest, row.scores[0]])).toEqual([["b", true, false, 40], ["a", false, true, 100], ["c", false, false, null]]);
    expect(result.rows[2]?.filters[0]).toEqual({ isRejected: true, reasons: ["Insufficient cpu"], isFinal: false });
    expect(matrix(explanation, true).scores.length).toBe(2);
  });
});

describe("map", () => {
  const pod = (name: string, ready = true, owner = "", labels: Record<string, string> = { app: "web" }): MapPod => ({ namespace: "n", name, labels, owner, node: "node-0", level: ready ? "good" : "progress" });
  const objects = {
    ingresses: [object("in", {}, { spec: { rules: [{ host: "x", http: { paths: [{ path: "/", backend: { service: { name: "web" } } }] } }] } })],
    services: [object("web", {}, { spec: { clusterIP: "10.0.0.1", ports: [{ port: 80 }] } }), object("lonely")],
    slices: [object("web-1", { labels: { "kubernetes.io/service-name": "web" } }, { endpoints: [{ conditions: { ready: true }, targetRef: { name: "a" } }, { conditions: { ready: false }, targetRef: { name: "b" } }] })],
    pods: [pod("a"), pod("b", false), pod("other", true, "", {})],
    policies: [object("deny", {}, { spec: { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] } })],
  };

  it("connects what traffic connects", () => {
    const graph = buildGraph(objects);
    expect(graph.edges.map((edge) => `${edge.from}>${edge.to}${edge.isBroken ? "!" : ""}`).sort()).toEqual([
      "EndpointSlice/n/web-1>Pod/n/a", "EndpointSlice/n/web-1>Pod/n/b!", "Ingress/n/in>Service/n/web", "Pod/n/a>NetworkPolicy/n/deny", "Pod/n/b>NetworkPolicy/n/deny", "Service/n/web>EndpointSlice/n/web-1",
    ]);
    expect(graph.nodes.find((node) => node.id === "Service/n/web")?.level).toBe("warning");
    expect(around(graph, "Service/n/web").nodes.map((node) => node.name).sort()).toEqual(["a", "b", "deny", "in", "web", "web-1"]);
  });

  it("draws many pods of one owner as one, and stays bounded", () => {
    const many = buildGraph({ ...objects, policies: [], slices: [], pods: Array.from({ length: 40 }, (_, index) => pod(`p-${index}`, true, "rs")) });
    expect(many.nodes.find((node) => node.kind === "Pod")).toMatchObject({ name: "rs-*", count: 40, detail: "40/40" });
    const large = buildGraph({ ...objects, pods: Array.from({ length: 500 }, (_, index) => pod(`p-${index}`)) });
    expect(large.nodes.length).toBe(200);
    expect(large.omitted).toBeGreaterThan(0);
  });

  it("draws ten thousand pods with a policy and a service as few groups", () => {
    const pods = Array.from({ length: 10_000 }, (_, index) => pod(`p-${index}`, true, "rs"));
    const slices = Array.from({ length: 100 }, (_, slice) => object(`web-${slice}`, { labels: { "kubernetes.io/service-name": "web" } }, { endpoints: Array.from({ length: 100 }, (_, index) => ({ conditions: { ready: true }, targetRef: { name: `p-${slice * 100 + index}` } })) }));
    const graph = buildGraph({ ...objects, pods, slices });
    expect(graph.nodes.length).toBe(200);
    expect(new Set(graph.nodes.filter((node) => node.kind === "Pod").map((node) => node.count))).toEqual(new Set([100]));
  });

  it("reads pods from rows of the table", () => {
    const read = podReader(["Name", "Ready", "Status", "Node"].map((name) => ({ name, type: "string" })) as TableColumn[]);
    const row = (ready: string, status: string, metadata: object = {}) => read({ key: "n/a", uid: "u", cells: ["a", ready, status, "node-1"], metadata } as unknown as Row);
    expect(row("1/1", "Running", { labels: { app: "web" }, ownerReferences: [{ controller: true, name: "rs" }] })).toEqual({ namespace: "n", name: "a", labels: { app: "web" }, owner: "rs", node: "node-1", level: "good" });
    expect([row("0/1", "CrashLoopBackOff"), row("0/1", "ContainerCreating"), row("0/1", "Completed"), row("1/1", "Running", { deletionTimestamp: "x" })].map((item) => item.level)).toEqual(["bad", "progress", "neutral", "progress"]);
  });

  it("selects by expressions", () => {
    expect(selects({}, {})).toBe(true);
    expect(selects({ matchExpressions: [{ key: "a", operator: "NotIn", values: ["b"] }] }, { a: "b" })).toBe(false);
    expect(selects({ matchExpressions: [{ key: "a", operator: "DoesNotExist" }] }, {})).toBe(true);
  });

  it("is laid out without crossings where none are needed", () => {
    const edges = [["a", "z"], ["b", "y"], ["c", "x"]].map(([from = "", to = ""]) => ({ from, to }));
    const result = layout([["a", "b", "c"], [], ["x", "y", "z"]], edges, { columnWidth: 100, rowHeight: 10 });
    expect(crossings(result.places, edges)).toBe(0);
    expect(result.columns).toEqual([0, 2]);
    expect(result.width).toBe(200);
  });
});

describe("replay", () => {
  const record = (number: number, component: string, action: string, subject: string, outcome = "200", actor = ""): RecorderRecord => ({ number, time: number, component, action, subject, outcome, actor });
  const records = [
    record(1, "apiserver", "create", "pods/n/web", "201"),
    record(2, "kube-scheduler", "bind", "pods/n/web", "node-1"),
    record(3, "kubelet/node-1", "start container", "pods/n/web"),
    record(4, "kubelet/node-1", "report status", "pods/n/web", "Running, ready"),
    record(5, "apiserver", "create", "pods/n/bad", "403 Forbidden"),
    record(6, "apiserver", "update", "leases.coordination.k8s.io/kube-node-lease/node-1"),
    record(9, "apiserver", "delete", "pods/n/web"),
  ];

  it("shows the pods of a time", () => {
    const phases = [1, 2, 3, 4, 6, 9, 20].map((time) => podsAt(records, time).map((pod) => `${pod.phase}@${pod.node}`).join());
    expect(phases).toEqual(["created@", "bound@node-1", "starting@node-1", "ready@node-1", "ready@node-1", "deleted@node-1", ""]);
    expect([...byNode(podsAt(records, 4)).keys()]).toEqual(["node-1"]);
  });

  it("shows pods of hollow nodes, which have no kubelet's records", () => {
    const patch = record(3, "apiserver", "patch", "pods/n/web/status", "200", "system:node:node-1");
    const phases = ["Pending, main: ErrImagePull", "Running", "Running, ready", "Failed"].map((state) => podsAt([records[0]!, records[1]!, { ...patch, state }], 5)[0]?.phase);
    expect(phases).toEqual(["bound", "running", "ready", "ended"]);
  });

  it("says where pods are only as far as the records tell", () => {
    const patched = { ...record(1, "apiserver", "patch", "pods/n/old/status", "200", "system:node:node-2"), state: "Running" };
    expect(podsAt([patched], 5)).toMatchObject([{ phase: "running", node: "node-2" }]);
    const reporting = [record(1, "kubelet/node-2", "report status", "pods/n/other", "Pending"), { ...patched, number: 2, time: 2 }];
    expect(podsAt(reporting, 5)).toEqual([]);
    const deleted = record(1, "apiserver", "delete", "pods/n/old", "200");
    expect([...byNode(podsAt([deleted], 2)).keys()]).toEqual([UNKNOWN_NODE]);
  });

  it("knows the past from where the recorder begins", () => {
    expect(knownSince(records, 100, null)).toBe(100);
    expect(knownSince(records, 100, 50)).toBe(100);
    expect(knownSince(records, 100, 150)).toBe(150);
    expect(knownSince(Array.from({ length: MOST_RECORDS }, () => ({ ...records[0]!, time: 180 })), 100, 50)).toBe(180);
  });

  it("adds only new records and counts them", () => {
    expect(merged(records.slice(0, 3), records.slice(1)).map((item) => item.number)).toEqual([1, 2, 3, 4, 5, 6, 9]);
    expect(records.filter(isNoise).length).toBe(1);
    expect(histogram(records, 0, 10, 2).map((bucket) => bucket.counts.apiserver)).toEqual([1, 3]);
  });
});

describe("queues and audit", () => {
  it("put failing controllers first", () => {
    const failing = { name: "z", recent: [{ time: 1, key: "k", tookSeconds: 0, error: "boom" }] };
    expect(controllerState(failing)).toBe("failing");
    expect(sortControllers([{ name: "a" }, { name: "b", depth: 2 }, failing]).map((item) => item.name)).toEqual(["z", "b", "a"]);
  });

  it("tell people's writes from the system's", () => {
    const entry = { number: 1, time: 0, actor: "jane", action: "create", subject: "", resource: "pods", namespace: "", name: "", subresource: "", outcome: "201", tookSeconds: 0 };
    expect(isOfPerson(entry)).toBe(true);
    expect(isOfPerson({ ...entry, actor: "system:node:a" })).toBe(false);
    expect(isOfPerson({ ...entry, actor: "system:serviceaccount:kube-system:job-controller" })).toBe(false);
    expect(isOfPerson({ ...entry, actor: "system:serviceaccount:ci:deployer" })).toBe(true);
    expect(isOfPerson({ ...entry, resource: "selfsubjectreviews.authentication.k8s.io" })).toBe(false);
  });
});
