import { describe, expect, it } from "vitest";
import * as fields from "../../src/views/create/fields";
import * as models from "../../src/views/create/models";
import { kubectl, shellWord } from "../../src/views/actions/kubectl";
import { objectYaml, toYaml } from "../../src/views/editor/yaml";

describe("forms", () => {
  it("make a Deployment whose selector fits its template", () => {
    const model = models.modelOf("deployment")!;
    const container = { name: "main", image: "nginx", command: `sh -c "echo 'a b'"`, "resources.requests.cpu": "250m", ports: [{ containerPort: "80" }] };
    const values = { ...fields.initialValues([...model.fields, ...model.advanced]), "metadata.name": "web", "spec.replicas": "3", "spec.template.spec.containers": [container] };
    expect(models.buildManifest(model, values, "shop")).toEqual({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "web", namespace: "shop", labels: { app: "web" } },
      spec: {
        replicas: 3,
        selector: { matchLabels: { app: "web" } },
        template: {
          metadata: { labels: { app: "web" } },
          spec: { containers: [{ name: "main", image: "nginx", command: ["sh", "-c", "echo 'a b'"], resources: { requests: { cpu: "250m" } }, ports: [{ containerPort: 80 }] }] },
        },
      },
    });
  });

  it("exist for every kind, and their initial values make a manifest", () => {
    expect(models.MODELS.map((model) => model.kind).sort()).toEqual([
      "ConfigMap", "CronJob", "Deployment", "Ingress", "Job", "PersistentVolumeClaim", "Pod", "ReplicationController", "Secret", "Service", "StatefulSet",
    ]);
    for (const model of models.MODELS) {
      const values = fields.initialValues([...model.fields, ...model.advanced]);
      expect(models.buildManifest(model, { ...values, "metadata.name": "x" }, "n").metadata.name).toBe("x");
    }
  });

  it("make volumes of the chosen type", () => {
    const model = models.modelOf("Pod")!;
    const manifest = models.buildManifest(model, { "metadata.name": "p", "spec.volumes": [{ name: "v", $type: "secret", $source: "s" }, { name: "e", $type: "emptyDir", $source: "" }] }, "n");
    expect(manifest["spec"]).toEqual({ volumes: [{ name: "v", secret: { secretName: "s" } }, { name: "e", emptyDir: {} }] });
  });

  it("show the server's messages at their fields", () => {
    const model = models.modelOf("Ingress")!;
    const values = fields.initialValues(model.fields);
    const paths = fields.allPaths(model.fields, values);
    const { byPath, others } = fields.placeCauses(
      [
        { field: "metadata.name", message: "Required value" },
        { field: "spec.rules[0].http.paths[0].backend.service.name", message: "bad" },
        { field: "spec.rules[0].http.paths[0].backend", message: "odd" },
        { field: "spec.nowhere", message: "other" },
      ],
      paths,
    );
    expect(byPath.get("metadata.name")).toBe("Required value");
    expect(byPath.get("spec.rules[0].http.paths[0].backend.service.name")).toBe("bad");
    expect(byPath.get("spec.rules")).toBe("odd");
    expect(others).toEqual([{ field: "spec.nowhere", message: "other" }]);
    const parent = fields.placeCauses([{ field: "a.requests", message: "must be less than or equal to memory limit" }], ["a", "a.requests.cpu", "a.requests.memory"]);
    expect([...parent.byPath.keys()]).toEqual(["a.requests.memory"]);
  });
});

describe("YAML", () => {
  it("is written as kubectl writes it", () => {
    const value = {
      spec: { list: [{ a: 1, b: ["x", "y"] }, {}], empty: [], text: "a\nb\n", odd: "yes", number: "12", colon: "a: b", url: "http://x/y", none: null },
      kind: "X",
      metadata: { name: "w", annotations: { "a/b": "1" } },
      apiVersion: "v1",
    };
    expect(toYaml(value)).toBe(
      'apiVersion: v1\nkind: X\nmetadata:\n  name: w\n  annotations:\n    a/b: "1"\nspec:\n  list:\n  - a: 1\n    b:\n    - x\n    - "y"\n  - {}\n  empty: []\n  text: |\n    a\n    b\n  odd: "yes"\n  number: "12"\n  colon: "a: b"\n  url: http://x/y\n  none: null\n',
    );
    expect(objectYaml({ kind: "X", metadata: { name: "w", managedFields: [1] } })).toBe("kind: X\nmetadata:\n  name: w\n");
  });
});

describe("kubectl", () => {
  const deployment = { resource: { group: "apps", name: "deployments", namespaced: true }, namespace: "shop", name: "web" };
  it("says the same as the page does", () => {
    expect(kubectl.scale(deployment, 3)).toBe("kubectl scale deployment/web -n shop --replicas=3");
    expect(kubectl.undo(deployment, 2)).toBe("kubectl rollout undo deployment/web -n shop --to-revision=2");
    expect(kubectl.drain("n1", { deletesEmptyDir: true, force: false, graceSeconds: null })).toBe("kubectl drain n1 --ignore-daemonsets --delete-emptydir-data");
    expect(kubectl.delete(deployment, { cascade: "orphan", graceSeconds: 0 })).toBe("kubectl delete deployment/web -n shop --cascade=orphan --grace-period=0 --force");
    expect(kubectl.exec("n", "p", "c", ["sh", "-c", "a b"])).toBe("kubectl exec -it -n n p -c c -- sh -c 'a b'");
    expect(kubectl.get({ resource: { group: "x.example", name: "widgets", namespaced: true }, namespace: "n", name: "w" })).toBe("kubectl get widgets.x.example/w -n n -o yaml");
    expect(shellWord("it's")).toBe(`'it'\\''s'`);
  });
});
