/** The kubectl command that does the same as the page. */
import { qualifiedName, type Resource } from "./resources";

/** Quotes what a shell would read as more than one plain word. */
export function shellQuote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

export function kubectl(...words: readonly (string | false | undefined)[]): string {
  return ["kubectl", ...words.filter((word): word is string => Boolean(word)).map(shellQuote)].join(" ");
}

/** Built-in kinds have short unique names; others are named with their group. */
export function kubectlName(resource: Pick<Resource, "group" | "name">): string {
  const isBuiltIn = !resource.group.includes(".") || resource.group.endsWith(".k8s.io");
  return isBuiltIn ? resource.name : qualifiedName(resource);
}

export function listCommand(resource: Resource, options: { namespace?: string; label?: string }): string {
  const scope = resource.namespaced ? (options.namespace ? ["-n", options.namespace] : ["-A"]) : [];
  return kubectl("get", kubectlName(resource), ...scope, ...(options.label ? ["-l", options.label] : []));
}

/** `objectCommand("delete", pods, "default", "web-1")`; more words follow. */
export function objectCommand(verb: string, resource: Resource, namespace: string | undefined, name: string, ...rest: readonly string[]): string {
  return kubectl(...verb.split(" "), `${kubectlName(resource)}/${name}`, ...(namespace ? ["-n", namespace] : []), ...rest);
}
