/** Requests to the dashboard server: JSON in, JSON out, errors as Kubernetes Status objects. */
import type { Status } from "./kubernetes";

export class ApiError extends Error {
  readonly code: number;
  readonly status: Status;

  constructor(status: Status) {
    super(status.message || status.reason || `HTTP ${status.code ?? 0}`);
    this.name = "ApiError";
    this.status = status;
    this.code = status.code ?? 0;
  }
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError({ code: 0, reason: "NetworkError", message });
}

export interface RequestOptions {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

let csrf = "";
let sessionEnded: () => void = () => undefined;

export function setCsrf(token: string): void {
  csrf = token;
}

export function csrfToken(): string {
  return csrf;
}

/** Called for every 401 of a request that needs a session. */
export function onSessionEnd(callback: () => void): void {
  sessionEnded = callback;
}

/** Sends a request below `/ui/api/` and returns the response; a status of 400 or more is thrown as an ApiError. */
export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const method = options.method ?? "GET";
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  if (method !== "GET") headers["X-Sampan-Csrf"] = csrf;
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) {
    headers["Content-Type"] ??= "application/json";
    init.body = typeof options.body === "string" ? options.body : JSON.stringify(options.body);
  }
  const response = await fetchAgain(`/ui/api/${path}`, init);
  if (response.ok) return response;
  if (response.status === 401 && path !== "login") sessionEnded();
  throw new ApiError(await readStatus(response));
}

const ATTEMPTS = 4;
const PAUSE_MS = 250;

/** Browsers end requests when an interface of the machine comes or goes: reads are sent again. */
async function fetchAgain(url: string, init: RequestInit): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fetch(url, init);
    } catch (error) {
      if (init.method !== "GET" || init.signal?.aborted || attempt === ATTEMPTS) throw error;
      await new Promise((resolve) => window.setTimeout(resolve, attempt * PAUSE_MS));
    }
  }
}

export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(path, options);
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

async function readStatus(response: Response): Promise<Status> {
  const text = await response.text();
  try {
    const body: unknown = JSON.parse(text);
    if (body && typeof body === "object") return { code: response.status, ...body };
  } catch {
    // The body is no JSON: its text is the message.
  }
  return { code: response.status, message: text.slice(0, 500) || response.statusText };
}

/** The part of the server that belongs to one cluster: `cluster("local").get("/api/v1/pods")`. */
export class ClusterClient {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  private path(rest: string): string {
    return `clusters/${encodeURIComponent(this.name)}/${rest}`;
  }

  /** Any Kubernetes API request with the rights of the person who logged in. */
  k8s<T>(path: string, options: RequestOptions = {}): Promise<T> {
    return request<T>(this.path(`k8s${path}`), options);
  }

  /** The same, with the response itself, for log streams and plain text. */
  k8sResponse(path: string, options: RequestOptions = {}): Promise<Response> {
    return send(this.path(`k8s${path}`), options);
  }

  /** What the dashboard server computes for the page: `overview`, `trace?…`, `why?…`, `diff`. */
  computed<T>(rest: string, options: RequestOptions = {}): Promise<T> {
    return request<T>(this.path(rest), options);
  }

  /** Address of a WebSocket of this cluster: `socketUrl("stream")`, `socketUrl("k8s/api/v1/…/exec?…")`. */
  socketUrl(rest: string): string {
    const scheme = window.location.protocol === "https:" ? "wss" : "ws";
    return `${scheme}://${window.location.host}/ui/api/${this.path(rest)}`;
  }

  /** Subprotocols that every WebSocket sends first. */
  socketProtocols(...protocols: string[]): string[] {
    return [...protocols, `sampan.csrf.${csrf}`];
  }
}

const clients = new Map<string, ClusterClient>();

export function cluster(name: string): ClusterClient {
  let client = clients.get(name);
  if (!client) clients.set(name, (client = new ClusterClient(name)));
  return client;
}
