/** The subprotocol v5.channel.k8s.io of exec and attach: the first byte of each message names its channel. */

export const PROTOCOL = "v5.channel.k8s.io";
export const FALLBACK_PROTOCOL = "v4.channel.k8s.io";

export const STDIN = 0;
export const STDOUT = 1;
export const STDERR = 2;
export const ERROR = 3;
export const RESIZE = 4;
const CLOSE = 255;

export interface Frame {
  readonly channel: number;
  readonly data: Uint8Array;
}

export function encodeFrame(channel: number, data: Uint8Array | string): Uint8Array<ArrayBuffer> {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  const frame = new Uint8Array(bytes.length + 1);
  frame[0] = channel;
  frame.set(bytes, 1);
  return frame;
}

export function encodeResize(columns: number, rows: number): Uint8Array<ArrayBuffer> {
  return encodeFrame(RESIZE, JSON.stringify({ Width: columns, Height: rows }));
}

/** Half-closes a channel: the command sees the end of its standard input. */
export function encodeClose(channel: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.of(CLOSE, channel);
}

export function decodeFrame(message: ArrayBuffer | string): Frame | null {
  if (typeof message === "string") {
    if (!message) return null;
    return { channel: message.charCodeAt(0), data: new TextEncoder().encode(message.slice(1)) };
  }
  const bytes = new Uint8Array(message);
  return bytes.length ? { channel: bytes[0]!, data: bytes.subarray(1) } : null;
}

export interface ExitStatus {
  readonly ok: boolean;
  readonly exitCode: number | null;
  readonly message: string;
}

/** Reads the Status object that the error channel carries when the command has ended. */
export function parseExit(data: Uint8Array): ExitStatus {
  const text = new TextDecoder().decode(data);
  try {
    const status = JSON.parse(text) as {
      status?: string;
      message?: string;
      details?: { causes?: { reason?: string; message?: string }[] };
    };
    if (status.status === "Success") return { ok: true, exitCode: 0, message: "" };
    const cause = status.details?.causes?.find((item) => item.reason === "ExitCode");
    const code = cause ? Number(cause.message) : Number.NaN;
    return { ok: false, exitCode: Number.isFinite(code) ? code : null, message: status.message ?? "" };
  } catch {
    return { ok: false, exitCode: null, message: text };
  }
}

export interface ExecTarget {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

/** The path of an exec request below the cluster's `k8s`. */
export function execPath(target: ExecTarget, command: readonly string[], options: { stdin?: boolean; tty?: boolean } = {}): string {
  const query = new URLSearchParams({ container: target.container, stdout: "true" });
  if (options.stdin) query.set("stdin", "true");
  if (options.tty) query.set("tty", "true");
  else query.set("stderr", "true");
  for (const word of command) query.append("command", word);
  return podPath(target, "exec", query);
}

export function attachPath(target: ExecTarget): string {
  return podPath(target, "attach", new URLSearchParams({ container: target.container, stdin: "true", stdout: "true", tty: "true" }));
}

function podPath(target: ExecTarget, subresource: string, query: URLSearchParams): string {
  const { namespace, pod } = target;
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/${subresource}?${query}`;
}

/** The best shell that the image has: bash, then ash or sh. */
export const SHELL: readonly string[] = ["sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash || exec sh"];
