/** The parts of Kubernetes objects that the page reads. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
}

export interface ManagedFields {
  readonly manager?: string;
  readonly operation?: string;
  readonly apiVersion?: string;
  readonly time?: string;
  readonly subresource?: string;
  readonly fieldsV1?: Json;
}

export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
  readonly managedFields?: readonly ManagedFields[];
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Any object: spec and status are read with `at`. */
export interface KubernetesObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
  readonly [field: string]: unknown;
}

export interface ObjectList {
  readonly items?: readonly KubernetesObject[];
  readonly metadata?: { readonly continue?: string; readonly remainingItemCount?: number; readonly resourceVersion?: string };
}

export interface StatusCause {
  readonly field?: string;
  readonly message?: string;
  readonly reason?: string;
}

export interface Status {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly name?: string; readonly kind?: string; readonly causes?: readonly StatusCause[] };
}

export interface TableColumn {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description?: string;
  readonly priority?: number;
}

/** Reads a nested field: `at(pod, "spec", "nodeName")`; undefined where a step is missing. */
export function at(value: unknown, ...steps: readonly (string | number)[]): unknown {
  let current = value;
  for (const step of steps) {
    if (current === null || typeof current !== "object") return undefined;
    current = (current as Record<string | number, unknown>)[step];
  }
  return current;
}

export function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function record(value: unknown): Readonly<Record<string, unknown>> {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

/** Does a label selector's matchLabels, or a Service's selector, select these labels? An empty one selects nothing. */
export function matchesLabels(selector: unknown, labels: Readonly<Record<string, string>> | undefined): boolean {
  const pairs = Object.entries(record(selector));
  return pairs.length > 0 && pairs.every(([key, value]) => labels?.[key] === value);
}
