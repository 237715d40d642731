/** Which other objects an object names, selects, or is selected by. */
import { at, list, matchesLabels, record, text, type KubernetesObject } from "../../app/kubernetes";
import type { Resource } from "../../app/resources";

export interface Reference {
  /** Plural name and group, as in discovery. */
  readonly name: string;
  readonly group: string;
  readonly namespace?: string;
  readonly object: string;
  /** The field that refers to it. */
  readonly field: string;
}

/** Objects that the fields of this object name. */
export function references(resource: Resource, object: KubernetesObject): Reference[] {
  const template = podTemplate(resource, object);
  const found = [...(template ? podReferences(template.spec, object.metadata.namespace, template.path) : []), ...ownReferences(resource, object)];
  const unique = new Map(found.filter((reference) => reference.object !== "").map((reference) => [`${reference.group}/${reference.name}/${reference.namespace ?? ""}/${reference.object}`, reference]));
  return [...unique.values()];
}

function podTemplate(resource: Resource, object: KubernetesObject): { spec: unknown; path: string } | null {
  if (resource.name === "pods") return { spec: object["spec"], path: "spec" };
  if (resource.name === "cronjobs") return { spec: at(object, "spec", "jobTemplate", "spec", "template", "spec"), path: "spec.jobTemplate.spec.template.spec" };
  const spec = at(object, "spec", "template", "spec");
  return spec === undefined ? null : { spec, path: "spec.template.spec" };
}

function podReferences(spec: unknown, namespace: string | undefined, path: string): Reference[] {
  const inNamespace = (name: string, object: unknown, field: string): Reference => ({ name, group: "", object: text(object), field: `${path}.${field}`, ...(namespace ? { namespace } : {}) });
  const found: Reference[] = [
    { name: "nodes", group: "", object: text(at(spec, "nodeName")), field: `${path}.nodeName` },
    inNamespace("serviceaccounts", at(spec, "serviceAccountName"), "serviceAccountName"),
    { name: "priorityclasses", group: "scheduling.k8s.io", object: text(at(spec, "priorityClassName")), field: `${path}.priorityClassName` },
    { name: "runtimeclasses", group: "node.k8s.io", object: text(at(spec, "runtimeClassName")), field: `${path}.runtimeClassName` },
    ...list(at(spec, "imagePullSecrets")).map((secret) => inNamespace("secrets", at(secret, "name"), "imagePullSecrets")),
  ];
  for (const volume of list(at(spec, "volumes"))) {
    found.push(
      inNamespace("configmaps", at(volume, "configMap", "name"), "volumes"),
      inNamespace("secrets", at(volume, "secret", "secretName"), "volumes"),
      inNamespace("persistentvolumeclaims", at(volume, "persistentVolumeClaim", "claimName"), "volumes"),
      ...list(at(volume, "projected", "sources")).flatMap((source) => [inNamespace("configmaps", at(source, "configMap", "name"), "volumes"), inNamespace("secrets", at(source, "secret", "name"), "volumes")]),
    );
  }
  for (const container of ["initContainers", "containers"].flatMap((field) => list(at(spec, field)))) {
    for (const source of [...list(at(container, "env")).map((variable) => at(variable, "valueFrom")), ...list(at(container, "envFrom"))]) {
      found.push(
        inNamespace("configmaps", at(source, "configMapKeyRef", "name") ?? at(source, "configMapRef", "name"), "containers"),
        inNamespace("secrets", at(source, "secretKeyRef", "name") ?? at(source, "secretRef", "name"), "containers"),
      );
    }
  }
  return found;
}

function ownReferences(resource: Resource, object: KubernetesObject): Reference[] {
  const namespace = object.metadata.namespace;
  const inNamespace = (name: string, group: string, value: unknown, field: string): Reference => ({ name, group, object: text(value), field, ...(namespace ? { namespace } : {}) });
  switch (resource.name) {
    case "persistentvolumeclaims":
      return [
        { name: "persistentvolumes", group: "", object: text(at(object, "spec", "volumeName")), field: "spec.volumeName" },
        { name: "storageclasses", group: "storage.k8s.io", object: text(at(object, "spec", "storageClassName")), field: "spec.storageClassName" },
      ];
    case "persistentvolumes":
      return [
        { name: "persistentvolumeclaims", group: "", object: text(at(object, "spec", "claimRef", "name")), namespace: text(at(object, "spec", "claimRef", "namespace")), field: "spec.claimRef" },
        { name: "storageclasses", group: "storage.k8s.io", object: text(at(object, "spec", "storageClassName")), field: "spec.storageClassName" },
      ];
    case "ingresses":
      return [
        { name: "ingressclasses", group: "networking.k8s.io", object: text(at(object, "spec", "ingressClassName")), field: "spec.ingressClassName" },
        inNamespace("services", "", at(object, "spec", "defaultBackend", "service", "name"), "spec.defaultBackend"),
        ...list(at(object, "spec", "rules")).flatMap((rule) => list(at(rule, "http", "paths"))).map((path) => inNamespace("services", "", at(path, "backend", "service", "name"), "spec.rules")),
        ...list(at(object, "spec", "tls")).map((tls) => inNamespace("secrets", "", at(tls, "secretName"), "spec.tls")),
      ];
    case "rolebindings":
    case "clusterrolebindings": {
      const isRole = at(object, "roleRef", "kind") === "Role";
      const role = { name: isRole ? "roles" : "clusterroles", group: "rbac.authorization.k8s.io", object: text(at(object, "roleRef", "name")), field: "roleRef", ...(isRole && namespace ? { namespace } : {}) };
      const accounts = list(object["subjects"]).filter((subject) => at(subject, "kind") === "ServiceAccount")
        .map((subject): Reference => ({ name: "serviceaccounts", group: "", object: text(at(subject, "name")), namespace: text(at(subject, "namespace")), field: "subjects" }));
      return [role, ...accounts];
    }
    case "horizontalpodautoscalers": {
      const kind = text(at(object, "spec", "scaleTargetRef", "kind"));
      return kind ? [inNamespace(`${kind.toLowerCase()}s`, text(at(object, "spec", "scaleTargetRef", "apiVersion")).split("/").slice(0, -1).join("/"), at(object, "spec", "scaleTargetRef", "name"), "spec.scaleTargetRef")] : [];
    }
    case "endpointslices":
      return [inNamespace("services", "", object.metadata.labels?.["kubernetes.io/service-name"], "metadata.labels")];
    case "events": {
      return [];
    }
    default:
      return [];
  }
}

/** Kinds in the same namespace whose objects may select this one, or be selected by it. */
export const SELECTED_BY: Readonly<Record<string, readonly (readonly [name: string, group: string])[]>> = {
  pods: [["services", ""], ["networkpolicies", "networking.k8s.io"], ["poddisruptionbudgets", "policy"]],
  deployments: [["services", ""], ["horizontalpodautoscalers", "autoscaling"], ["poddisruptionbudgets", "policy"]],
  statefulsets: [["services", ""], ["horizontalpodautoscalers", "autoscaling"], ["poddisruptionbudgets", "policy"]],
  daemonsets: [["services", ""]],
  services: [["pods", ""], ["endpointslices", "discovery.k8s.io"], ["ingresses", "networking.k8s.io"]],
  networkpolicies: [["pods", ""]],
  poddisruptionbudgets: [["pods", ""]],
  persistentvolumeclaims: [["pods", ""]],
  configmaps: [["pods", ""]],
  secrets: [["pods", ""], ["ingresses", "networking.k8s.io"]],
  serviceaccounts: [["pods", ""], ["rolebindings", "rbac.authorization.k8s.io"]],
  nodes: [["pods", ""]],
};

/** Is `other` related to `object` by a selector or by a reference, in either direction? */
export function isRelated(resource: Resource, object: KubernetesObject, otherResource: Resource, other: KubernetesObject): boolean {
  const labels = resource.name === "pods" ? object.metadata.labels : (record(at(object, "spec", "template", "metadata", "labels")) as Record<string, string>);
  const selects = (from: KubernetesObject, to: Readonly<Record<string, string>> | undefined): boolean =>
    [at(from, "spec", "selector"), at(from, "spec", "selector", "matchLabels"), at(from, "spec", "podSelector", "matchLabels")].some((selector) => matchesLabels(selector, to));
  if (["services", "networkpolicies", "poddisruptionbudgets"].includes(otherResource.name) && selects(other, labels)) return true;
  if (otherResource.name === "pods" && ["services", "networkpolicies", "poddisruptionbudgets"].includes(resource.name) && selects(object, other.metadata.labels)) return true;
  return references(otherResource, other).some((reference) => reference.name === resource.name && reference.group === resource.group
    && reference.object === object.metadata.name && (reference.namespace ?? "") === (object.metadata.namespace ?? ""));
}

/** Kinds that objects of a kind own; custom kinds may own any of the last line. */
export function ownedKinds(resource: Resource): readonly (readonly [name: string, group: string])[] {
  switch (resource.name) {
    case "deployments": return [["replicasets", "apps"]];
    case "statefulsets":
    case "daemonsets": return [["pods", ""], ["controllerrevisions", "apps"]];
    case "replicasets":
    case "replicationcontrollers":
    case "jobs": return [["pods", ""]];
    case "cronjobs": return [["jobs", "batch"]];
    case "services": return [["endpointslices", "discovery.k8s.io"]];
    case "pods": return [["persistentvolumeclaims", ""], ["resourceclaims", "resource.k8s.io"]];
    default: break;
  }
  const isBuiltIn = resource.group === "" || !resource.group.includes(".") || resource.group.endsWith(".k8s.io");
  return isBuiltIn ? [] : [["deployments", "apps"], ["statefulsets", "apps"], ["daemonsets", "apps"], ["jobs", "batch"], ["pods", ""], ["services", ""], ["configmaps", ""], ["secrets", ""], ["persistentvolumeclaims", ""]];
}
