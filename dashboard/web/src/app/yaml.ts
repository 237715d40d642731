/** Objects as YAML, with fields in alphabetical order as kubectl writes them. Reading YAML is the server's part. */
export function toYaml(value: unknown): string {
  return lines(value, "").join("\n") + "\n";
}

function lines(value: unknown, indent: string): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => itemLines(item, indent));
  const fields = Object.entries(value as Record<string, unknown>).filter(([, field]) => field !== undefined);
  return fields.sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([key, field]) => fieldLines(key, field, indent));
}

function fieldLines(key: string, value: unknown, indent: string): string[] {
  const name = `${indent}${scalar(key)}:`;
  if (isEmpty(value)) return [`${name} ${Array.isArray(value) ? "[]" : "{}"}`];
  if (Array.isArray(value)) return [name, ...lines(value, indent)];
  if (value !== null && typeof value === "object") return [name, ...lines(value, `${indent}  `)];
  if (typeof value === "string" && isBlock(value)) return [`${name} ${blockHeader(value)}`, ...blockLines(value, `${indent}  `)];
  return [`${name} ${scalar(value)}`];
}

function itemLines(value: unknown, indent: string): string[] {
  if (isEmpty(value)) return [`${indent}- ${Array.isArray(value) ? "[]" : "{}"}`];
  if (value !== null && typeof value === "object") {
    const [first = "", ...rest] = lines(value, `${indent}  `);
    return [`${indent}- ${first.slice(indent.length + 2)}`, ...rest];
  }
  if (typeof value === "string" && isBlock(value)) return [`${indent}- ${blockHeader(value)}`, ...blockLines(value, `${indent}  `)];
  return [`${indent}- ${scalar(value)}`];
}

function isEmpty(value: unknown): boolean {
  return value !== null && typeof value === "object" && Object.keys(value).length === 0;
}

/** Text of several lines is a block, unless a line could be read differently there. */
function isBlock(text: string): boolean {
  return text.includes("\n") && !/^\s|[\t\r\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]| \n| $/.test(text);
}

function blockHeader(text: string): string {
  return text.endsWith("\n\n") || text === "\n" ? "|+" : text.endsWith("\n") ? "|" : "|-";
}

function blockLines(text: string, indent: string): string[] {
  const body = text.endsWith("\n") ? text.slice(0, -1) : text;
  return body.split("\n").map((line) => (line === "" ? "" : indent + line));
}

const PLAIN = /^[A-Za-z_/][\w./@%+=-]*( ?[\w./@%+=(),-]+)*(:[\w./@%+=-]+)*$/;
const WORDS = /^(true|false|yes|no|on|off|y|n|null|~)$/i;

function scalar(value: unknown): string {
  if (typeof value !== "string") return String(value);
  return PLAIN.test(value) && !WORDS.test(value) ? value : JSON.stringify(value).replace(/[\x7f-\x9f\u2028\u2029\ufeff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
