/** Form fields by the path that they fill in the manifest, which is also the path in the server's messages. */
import type { StatusCause } from "../../app/kubernetes";
import type { LabelKey } from "./labels";

interface Common {
  /** The path below the parent: `spec.replicas`, `resources.requests.cpu`, `http.paths[0].path`. */
  readonly path: string;
  readonly label: LabelKey;
  readonly help?: LabelKey;
}

export interface TextField extends Common {
  readonly type: "text" | "number" | "textarea" | "password" | "words";
  readonly initial?: string;
  readonly placeholder?: string;
  readonly required?: boolean;
  /** A number where it is digits only, as a port may be a number or a name. */
  readonly isNumberOrText?: boolean;
}

export interface SelectField extends Common {
  readonly type: "select";
  readonly options: readonly string[];
  readonly initial?: string;
  /** The value becomes a list of one, as accessModes has it. */
  readonly isList?: boolean;
}

export interface CheckboxField extends Common {
  readonly type: "checkbox";
  readonly initial?: boolean;
}

export interface PairsField extends Common {
  readonly type: "pairs";
  readonly initial?: readonly Pair[];
  /** Values may have several lines, as files of a ConfigMap have. */
  readonly isLong?: boolean;
}

export interface ListField extends Common {
  readonly type: "list";
  readonly fields: readonly FormField[];
  readonly initialCount?: number;
  readonly add: LabelKey;
  readonly finish?: (item: Record<string, unknown>, values: FormValues) => void;
}

export type FormField = TextField | SelectField | CheckboxField | PairsField | ListField;
export type Pair = readonly [key: string, value: string];
export type FieldValue = string | boolean | readonly Pair[] | readonly FormValues[];
export type FormValues = { readonly [path: string]: FieldValue };

export function initialValues(fields: readonly FormField[]): FormValues {
  return Object.fromEntries(fields.map((field) => [field.path, initialValue(field)]));
}

function initialValue(field: FormField): FieldValue {
  switch (field.type) {
    case "checkbox": return field.initial ?? false;
    case "pairs": return field.initial ?? [];
    case "list": return Array.from({ length: field.initialCount ?? 0 }, () => initialValues(field.fields));
    case "select": return field.initial ?? field.options[0] ?? "";
    default: return field.initial ?? "";
  }
}

type Node = Record<string, unknown>;

/** Sets a value at a path; lists are made where a step has an index. */
export function setPath(root: Node, path: string, value: unknown): void {
  const steps = (path.match(/[^.[\]]+/g) ?? []).map((step) => (/^\d+$/.test(step) ? Number(step) : step));
  let current: Node = root;
  steps.forEach((step, index) => {
    if (index === steps.length - 1) {
      current[step] = value;
      return;
    }
    current[step] ??= typeof steps[index + 1] === "number" ? [] : {};
    current = current[step] as Node;
  });
}

/** Splits a command line into words, with quotes as a shell has them. */
export function splitWords(text: string): string[] {
  const words: string[] = [];
  for (const match of text.matchAll(/(?:[^\s"']|"(?:[^"\\]|\\.)*"|'[^']*')+/g)) {
    words.push(match[0].replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g, (_all, double?: string, single?: string) =>
      double !== undefined ? double.replace(/\\(.)/g, "$1") : (single ?? "")));
  }
  return words;
}

/** Fills the manifest with what the form has; empty fields stay absent, so that the server sets its defaults. */
export function fill(target: Node, fields: readonly FormField[], values: FormValues): void {
  for (const field of fields) {
    const value = encode(field, values[field.path]);
    if (value !== undefined) setPath(target, field.path, value);
  }
}

function encode(field: FormField, value: FieldValue | undefined): unknown {
  if (value === undefined) return undefined;
  switch (field.type) {
    case "checkbox": return value === true ? true : undefined;
    case "pairs": {
      const pairs = (value as readonly Pair[]).filter(([key]) => key !== "");
      return pairs.length ? Object.fromEntries(pairs) : undefined;
    }
    case "list": {
      const items = (value as readonly FormValues[]).map((item) => {
        const node: Node = {};
        fill(node, field.fields, item);
        field.finish?.(node, item);
        return node;
      });
      return items.length ? items : undefined;
    }
    case "select": return value === "" ? undefined : field.isList ? [value] : value;
    case "words": return value === "" ? undefined : splitWords(value as string);
    case "number": return value === "" ? undefined : numberOrText(value as string);
    default: return value === "" ? undefined : field.isNumberOrText ? numberOrText(value as string) : value;
  }
}

/** What is no number stays text: the server says so at the field. */
function numberOrText(text: string): number | string {
  return /^-?\d+$/.test(text.trim()) ? Number(text.trim()) : text;
}

export interface PlacedCauses {
  /** Messages by the path of their field. */
  readonly byPath: ReadonlyMap<string, string>;
  /** Messages that belong to no field of the form. */
  readonly others: readonly StatusCause[];
}

/**
 * Puts each message of the server at the field whose path is the longest beginning of its own. A message about a parent,
 * such as `resources.requests`, goes to the field below it that the message names: `resources.requests.memory`.
 */
export function placeCauses(causes: readonly StatusCause[], paths: readonly string[]): PlacedCauses {
  const byPath = new Map<string, string>();
  const others: StatusCause[] = [];
  for (const cause of causes) {
    const own = normalizedPath(cause.field ?? "");
    const words = new Set((cause.message ?? "").split(/\W+/));
    const named = paths.find((path) => path.startsWith(`${own}.`) && words.has(path.slice(path.lastIndexOf(".") + 1)));
    const candidates = paths.filter((path) => own === path || own.startsWith(`${path}.`) || own.startsWith(`${path}[`));
    const path = named ?? candidates.sort((a, b) => b.length - a.length)[0];
    if (path === undefined) others.push(cause);
    else byPath.set(path, [byPath.get(path), cause.message].filter(Boolean).join(" "));
  }
  return { byPath, others };
}

/** `metadata.labels[app]` and `data[key]` name a key of a map; `containers[0]` an item of a list. */
function normalizedPath(path: string): string {
  return path.replace(/\[([^\]]*)\]/g, (all, inner: string) => (/^\d+$/.test(inner) ? all : `.${inner}`));
}

/** All paths of a form with its values, lists included. */
export function allPaths(fields: readonly FormField[], values: FormValues, parent = ""): string[] {
  return fields.flatMap((field) => {
    const path = parent ? `${parent}.${field.path}` : field.path;
    if (field.type !== "list") return [path];
    const items = (values[field.path] as readonly FormValues[] | undefined) ?? [];
    return [path, ...items.flatMap((item, index) => allPaths(field.fields, item, `${path}[${index}]`))];
  });
}
