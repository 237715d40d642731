/** The kubectl command that does the same as an action of the page. */
import type { Resource } from "../../app/resources";

export interface ObjectName {
  readonly resource: Pick<Resource, "group" | "name" | "namespaced">;
  readonly namespace: string;
  readonly name: string;
}

/** Quotes a word for a POSIX shell where that is necessary. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

const SINGULAR: Readonly<Record<string, string>> = {
  pods: "pod", services: "service", nodes: "node", deployments: "deployment", statefulsets: "statefulset", daemonsets: "daemonset",
  replicasets: "replicaset", replicationcontrollers: "rc", jobs: "job", cronjobs: "cronjob", configmaps: "configmap", secrets: "secret",
  ingresses: "ingress", persistentvolumeclaims: "pvc", persistentvolumes: "pv", namespaces: "namespace",
};

function typeName({ resource }: ObjectName): string {
  const isBuiltIn = !resource.group.includes(".") || resource.group.endsWith(".k8s.io");
  return (isBuiltIn && SINGULAR[resource.name]) || (resource.group ? `${resource.name}.${resource.group}` : resource.name);
}

function place(object: ObjectName): string[] {
  return object.resource.namespaced && object.namespace ? ["-n", object.namespace] : [];
}

function command(...words: (string | readonly string[])[]): string {
  return ["kubectl", ...words.flat()].map(shellWord).join(" ");
}

function target(object: ObjectName): string {
  return `${typeName(object)}/${object.name}`;
}

export const kubectl = {
  get: (object: ObjectName) => command("get", target(object), place(object), "-o", "yaml"),
  apply: (file: string) => command("apply", "--server-side", "-f", file),
  create: (file: string) => command("create", "-f", file),
  replace: (file: string) => command("replace", "-f", file),
  diff: (file: string) => command("diff", "--server-side", "-f", file),
  edit: (object: ObjectName) => command("edit", target(object), place(object)),
  scale: (object: ObjectName, replicas: number) => command("scale", target(object), place(object), `--replicas=${replicas}`),
  restart: (object: ObjectName) => command("rollout", "restart", target(object), place(object)),
  undo: (object: ObjectName, revision: number) => command("rollout", "undo", target(object), place(object), `--to-revision=${revision}`),
  pause: (object: ObjectName, isPaused: boolean) => command("rollout", isPaused ? "pause" : "resume", target(object), place(object)),
  suspend: (object: ObjectName, isSuspended: boolean) =>
    command("patch", target(object), place(object), "--type=merge", "-p", `{"spec":{"suspend":${isSuspended}}}`),
  cordon: (node: string, isCordoned: boolean) => command(isCordoned ? "cordon" : "uncordon", node),
  drain: (node: string, options: { deletesEmptyDir: boolean; force: boolean; graceSeconds: number | null }) =>
    command("drain", node, "--ignore-daemonsets", options.deletesEmptyDir ? ["--delete-emptydir-data"] : [], options.force ? ["--force"] : [],
      options.graceSeconds === null ? [] : [`--grace-period=${options.graceSeconds}`]),
  delete: (object: ObjectName, options: { cascade?: string; graceSeconds?: number | null } = {}) =>
    command("delete", target(object), place(object), options.cascade && options.cascade !== "background" ? [`--cascade=${options.cascade}`] : [],
      options.graceSeconds === undefined || options.graceSeconds === null ? [] : [`--grace-period=${options.graceSeconds}`, ...(options.graceSeconds === 0 ? ["--force"] : [])]),
  trigger: (object: ObjectName, job: string) => command("create", "job", job, `--from=cronjob/${object.name}`, place(object)),
  logs: (namespace: string, pods: readonly string[], options: { container?: string; follow?: boolean; previous?: boolean; since?: string; selector?: string }) =>
    command("logs", options.selector ? ["-l", options.selector] : pods.slice(0, 1), namespace ? ["-n", namespace] : [], options.container ? ["-c", options.container] : ["--all-containers"],
      options.follow ? ["-f"] : [], options.previous ? ["--previous"] : [], options.since ? [`--since=${options.since}`] : [], options.selector || pods.length > 1 ? ["--prefix"] : [], "--timestamps"),
  exec: (namespace: string, pod: string, container: string, words: readonly string[]) =>
    command("exec", "-it", "-n", namespace, pod, "-c", container, "--", words),
  debug: (namespace: string, pod: string, image: string, container: string) =>
    command("debug", "-it", "-n", namespace, pod, `--image=${image}`, container ? [`--target=${container}`] : []),
  portForward: (object: ObjectName, local: number, remote: string | number) =>
    command("port-forward", place(object), target(object), `${local}:${remote}`),
  copy: (namespace: string, pod: string, container: string, path: string, local: string) =>
    command("cp", "-n", namespace, "-c", container, `${pod}:${path}`, local),
  top: (what: "pod" | "node", name: string, namespace: string) =>
    command("top", what, name, what === "pod" ? ["-n", namespace, "--containers"] : []),
} as const;
