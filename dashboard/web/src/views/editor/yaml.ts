/** Writes a JSON value as YAML, in the style of kubectl: two blanks, lists at the depth of their key, blocks for long texts. */

type Value = unknown;

const PLAIN = /^(?:[A-Za-z_./][\w./@+%-]*(?:[ :][\w./@+%()-]+)*|\d[\w.-]*)$/;
const RESERVED = /^(?:true|false|yes|no|on|off|y|n|null|~|\.nan|[-+]?\.inf)$/i;
const NUMERIC = /^[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d+)?$|^0[xob][\da-f]+$|^\d{4}-\d\d-\d\d/i;

function scalarText(value: Value): string {
  if (typeof value !== "string") return value === undefined ? "null" : JSON.stringify(value);
  const isPlain = PLAIN.test(value) && !RESERVED.test(value) && !NUMERIC.test(value) && !value.includes(": ") && !value.endsWith(":");
  return isPlain ? value : JSON.stringify(value);
}

function isBlock(value: Value): value is string {
  return typeof value === "string" && value.includes("\n") && !/[^\S\n]+\n|^\s|\t|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff]/.test(value);
}

function isEmpty(value: Value): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

function lines(value: Value, indent: string): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => itemLines(item, indent));
  return Object.entries(value as Record<string, Value>)
    .filter(([, item]) => item !== undefined)
    .flatMap(([key, item]) => entryLines(scalarText(key), item, indent));
}

function entryLines(key: string, value: Value, indent: string): string[] {
  if (isBlock(value)) {
    const trailing = /\n*$/.exec(value)![0].length;
    const mark = trailing === 0 ? "|-" : trailing === 1 ? "|" : "|+";
    const body = trailing === 0 ? value : value.slice(0, -1);
    return [`${indent}${key}: ${mark}`, ...body.split("\n").map((line) => (line ? `${indent}  ${line}` : ""))];
  }
  if (typeof value !== "object" || value === null) return [`${indent}${key}: ${scalarText(value)}`];
  if (isEmpty(value)) return [`${indent}${key}: ${Array.isArray(value) ? "[]" : "{}"}`];
  return [`${indent}${key}:`, ...lines(value, Array.isArray(value) ? indent : `${indent}  `)];
}

function itemLines(value: Value, indent: string): string[] {
  if (typeof value !== "object" || value === null) return [`${indent}- ${scalarText(value)}`];
  if (isEmpty(value)) return [`${indent}- ${Array.isArray(value) ? "[]" : "{}"}`];
  const [first = "", ...rest] = lines(value, `${indent}  `);
  return [`${indent}- ${first.slice(indent.length + 2)}`, ...rest];
}

/** `apiVersion`, `kind` and `metadata` come first, as people write them. */
export function toYaml(value: Value): string {
  if (typeof value !== "object" || value === null) return `${scalarText(value)}\n`;
  if (isEmpty(value)) return Array.isArray(value) ? "[]\n" : "{}\n";
  if (Array.isArray(value)) return `${lines(value, "").join("\n")}\n`;
  const { apiVersion, kind, metadata, ...rest } = value as Record<string, Value>;
  return `${lines({ apiVersion, kind, metadata, ...rest }, "").join("\n")}\n`;
}

/** The object without managed fields, as YAML to show and edit. */
export function objectYaml(object: unknown): string {
  const { metadata, ...rest } = object as { metadata?: Record<string, unknown> };
  const { managedFields: _managed, ...kept } = metadata ?? {};
  return toYaml({ ...rest, metadata: kept });
}
