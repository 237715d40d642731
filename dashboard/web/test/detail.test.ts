import { expect, test } from "vitest";
import { kubectl, listCommand } from "../src/app/kubectl";
import type { KubernetesObject } from "../src/app/kubernetes";
import type { Resource } from "../src/app/resources";
import { toYaml } from "../src/app/yaml";
import { differences, fieldPaths } from "../src/views/detail/differences";
import { withoutEffect } from "../src/views/detail/History";
import { isRelated, references } from "../src/views/detail/relations";
import { formatAmount, parseQuantity } from "../src/views/overview/quantities";

const resource = (name: string, group = ""): Resource => ({ group, version: "v1", name, kind: name, singular: name, namespaced: true, verbs: [], shortNames: [], categories: [], subresources: [] });

test("YAML as kubectl writes it", () => {
  const object = { kind: "ConfigMap", apiVersion: "v1", metadata: { name: "a", labels: { on: "true", n: "1", empty: "" } }, data: { text: "a\nb\n", list: [1, { x: null, y: [] }], odd: "- a: b # c" } };
  expect(toYaml(object)).toBe(`apiVersion: v1
data:
  list:
  - 1
  - x: null
    "y": []
  odd: "- a: b # c"
  text: |
    a
    b
kind: ConfigMap
metadata:
  labels:
    empty: ""
    "n": "1"
    "on": "true"
  name: a
`);
});

test("differences name the path, without bookkeeping", () => {
  const before = { metadata: { resourceVersion: "1" }, spec: { replicas: 1, ports: [{ port: 80 }] } };
  const after = { metadata: { resourceVersion: "2" }, spec: { replicas: 2, ports: [{ port: 80, name: "http" }] } };
  expect(differences(before, after)).toEqual([{ path: "spec.replicas", before: "1", after: "2" }, { path: "spec.ports[0].name", before: "", after: "http" }]);
});

test("paths of managed fields", () => {
  expect(fieldPaths({ "f:spec": { "f:replicas": {}, 'k:{"name":"a"}': { ".": {}, "f:image": {} } } })).toEqual(["spec.replicas", 'spec[{"name":"a"}].image']);
});

test("a pod refers to what its fields name, once each", () => {
  const pod: KubernetesObject = {
    metadata: { name: "p", namespace: "x", labels: { app: "web" } },
    spec: { nodeName: "n1", containers: [{ env: [{ valueFrom: { secretKeyRef: { name: "s" } } }], envFrom: [{ configMapRef: { name: "c" } }] }], volumes: [{ secret: { secretName: "s" } }, { persistentVolumeClaim: { claimName: "d" } }] },
  };
  expect(references(resource("pods"), pod).map((reference) => `${reference.name}/${reference.object}`)).toEqual(["nodes/n1", "secrets/s", "persistentvolumeclaims/d", "configmaps/c"]);
  const service: KubernetesObject = { metadata: { name: "svc", namespace: "x" }, spec: { selector: { app: "web" } } };
  expect(isRelated(resource("pods"), pod, resource("services"), service)).toBe(true);
  expect(isRelated(resource("secrets"), { metadata: { name: "s", namespace: "x" } }, resource("pods"), pod)).toBe(true);
  expect(isRelated(resource("secrets"), { metadata: { name: "other", namespace: "x" } }, resource("pods"), pod)).toBe(false);
});

test("commands are quoted for the shell", () => {
  expect(kubectl("get", "pods", false, "-l", "a in (b)")).toBe("kubectl get pods -l 'a in (b)'");
  expect(listCommand(resource("boats", "example.com"), {})).toBe("kubectl get boats.example.com -A");
});

test("quantities", () => {
  expect([parseQuantity("100m"), parseQuantity("2Gi"), parseQuantity("x")]).toEqual([0.1, 2 ** 31, undefined]);
  expect([formatAmount("cpu", 0.25), formatAmount("memory", 1.5 * 2 ** 30), formatAmount("pods", 110)]).toEqual(["250m", "1.5 GiB", "110"]);
});

test("a request after which the object has a known version changed nothing", () => {
  const entries = [{ number: 4, revision: "7" }, { number: 3, revision: "" }, { number: 2, revision: "7" }, { number: 1, revision: "5" }];
  expect([...withoutEffect(entries)]).toEqual([4]);
});
