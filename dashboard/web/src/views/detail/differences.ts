/** What changed between two versions of an object, field by field. */
export interface Difference {
  readonly path: string;
  readonly before: string;
  readonly after: string;
}

const IGNORED = new Set(["metadata.managedFields", "metadata.resourceVersion"]);

export function differences(before: unknown, after: unknown, path = ""): Difference[] {
  if (IGNORED.has(path) || Object.is(before, after)) return [];
  if (isContainer(before) && isContainer(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => differences(before[key], after[key], Array.isArray(after) ? `${path}[${key}]` : path ? `${path}.${key}` : key));
  }
  return [{ path, before: show(before), after: show(after) }];
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object";
}

function show(value: unknown): string {
  return value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

/** The paths of a fieldsV1 set, such as `spec.replicas` and `metadata.labels[app]`; keys of list items stay as they are. */
export function fieldPaths(fields: unknown, path = ""): string[] {
  if (!isContainer(fields)) return path ? [path] : [];
  const keys = Object.keys(fields).filter((key) => key !== ".");
  if (keys.length === 0) return path ? [path] : [];
  return keys.flatMap((key) => {
    const name = key.slice(2);
    return fieldPaths(fields[key], key.startsWith("f:") ? (path ? `${path}.${name}` : name) : `${path}[${name}]`);
  });
}
