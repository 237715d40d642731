// What an operator on Node.js does with its client, from the administrator's kubeconfig.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Writable } from "node:stream";

const [library, manifests] = process.argv.slice(2);
const k8s = await import(library);
const namespace = "node";
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);

function manifest(name) {
  return k8s.loadYaml(readFileSync(`${manifests}/${name}.yaml`, "utf8"));
}

// Resolves with the first object of a watch for which a condition holds.
function watchUntil(path, holds) {
  return new Promise((resolve, reject) => {
    const started = new k8s.Watch(config).watch(
      path,
      {},
      (type, value) => {
        if (holds(type, value)) {
          resolve(value);
          started.then((controller) => controller.abort());
        }
      },
      (error) => reject(error ?? new Error(`the watch of ${path} has ended`)),
    );
    started.catch(reject);
  });
}

async function followConfigMaps() {
  const events = [];
  let notify = () => {};
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const informer = k8s.makeInformer(
    config,
    path,
    () => core.listNamespacedConfigMap({ namespace, labelSelector: "app=shop" }),
    "app=shop",
  );
  for (const verb of ["add", "update", "delete"]) {
    informer.on(verb, (value) => {
      events.push(`${verb} ${value.data.color}`);
      notify();
    });
  }
  informer.on("error", (error) => {
    if (error?.type !== "aborted") throw error; // stop() reports its own interruption
  });
  const next = async () => {
    while (events.length === 0) await new Promise((resolve) => (notify = resolve));
    return events.shift();
  };
  await informer.start();
  const body = { metadata: { name: "settings", labels: { app: "shop" } }, data: { color: "red" } };
  await core.createNamespacedConfigMap({ namespace, body });
  assert.equal(await next(), "add red");
  await core.patchNamespacedConfigMap(
    { name: "settings", namespace, body: { data: { color: "green" } } },
    k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.MergePatch),
  );
  assert.equal(await next(), "update green");
  await core.deleteNamespacedConfigMap({ name: "settings", namespace });
  assert.equal(await next(), "delete green");
  await informer.stop();
}

async function rollOut() {
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
  const name = "web";
  await apps.createNamespacedDeployment({ namespace, body: manifest("deployment") });
  await watchUntil(path, (_, value) => value.status?.readyReplicas === 1);
  await apps.replaceNamespacedDeploymentScale({
    name,
    namespace,
    body: { metadata: { name, namespace }, spec: { replicas: 2 } },
  });
  await apps.patchNamespacedDeployment(
    { name, namespace, body: [{ op: "replace", path: "/spec/template/spec/containers/0/image", value: "web:2" }] },
    k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.JsonPatch),
  );
  await watchUntil(path, (_, value) => {
    const status = value.status ?? {};
    return status.updatedReplicas === 2 && status.replicas === 2 && status.readyReplicas === 2;
  });
  const pods = await core.listNamespacedPod({ namespace, labelSelector: "app=web", fieldSelector: "status.phase=Running" });
  const pod = pods.items.find((item) => item.metadata.deletionTimestamp === undefined);
  let text = "";
  const stream = new Writable({
    write(chunk, _, done) {
      text += chunk;
      done();
    },
  });
  const end = new Promise((resolve) => stream.on("finish", resolve));
  await new k8s.Log(config).log(namespace, pod.metadata.name, "web", stream, { tailLines: 1 });
  await end;
  assert.equal(text.trim(), "hello from web");
  await core.createNamespacedPodEviction({
    name: pod.metadata.name,
    namespace,
    body: { metadata: { name: pod.metadata.name, namespace } },
  });
}

async function useCustomResources() {
  const extensions = config.makeApiClient(k8s.ApiextensionsV1Api);
  const definition = manifest("definition");
  const masts = definition.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.masts;
  masts._default = masts.default; // the name of the field in this client; loadYaml keeps the other one
  await extensions.createCustomResourceDefinition({ body: definition });
  await watchUntil("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", (_, value) =>
    (value.status?.conditions ?? []).some((row) => row.type === "Established" && row.status === "True"),
  );
  const ships = { group: "example.com", version: "v1", namespace, plural: "ships" };
  const custom = config.makeApiClient(k8s.CustomObjectsApi);
  const body = { apiVersion: "example.com/v1", kind: "Ship", metadata: { name: "junk" }, spec: {} };
  const stored = await custom.createNamespacedCustomObject({ ...ships, body });
  assert.equal(stored.spec.masts, 4);
  stored.status = { position: "harbor" };
  await custom.replaceNamespacedCustomObjectStatus({ ...ships, name: "junk", body: stored });
}

async function refuse() {
  const code = async (request) => request.then(() => "accepted", (error) => error.code);
  assert.equal(await code(core.readNamespacedConfigMap({ name: "settings", namespace })), 404);
  const body = { metadata: { name: "Not_Valid" } };
  assert.equal(await code(core.createNamespacedConfigMap({ namespace, body })), 422);
  assert.equal(await code(core.createNamespace({ body: { metadata: { name: namespace } } })), 409);
}

await core.createNamespace({ body: { metadata: { name: namespace } } });
await followConfigMaps();
await rollOut();
await useCustomResources();
await refuse();
