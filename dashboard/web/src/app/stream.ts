/**
 * One WebSocket per cluster carries every live list, object and overview of the page. Subscriptions outlive the
 * connection: after a break the client connects again with backoff and subscribes anew, and the server sends a snapshot.
 */
import { signal, type Signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, cluster } from "./http";
import type { KubernetesObject, ObjectMeta, Status, TableColumn } from "./kubernetes";
import { checkSession } from "./session";

export interface Row {
  readonly key: string;
  readonly uid: string;
  readonly cells: readonly unknown[];
  readonly metadata: Partial<ObjectMeta>;
}

export function rowNamespace(row: Row): string {
  return row.key.includes("/") ? row.key.slice(0, row.key.indexOf("/")) : "";
}

export function rowName(row: Row): string {
  return row.key.slice(row.key.indexOf("/") + 1);
}

export type Change<T> = readonly ["PUT", T] | readonly ["DELETE", string];

export interface SubscriptionRequest {
  readonly path?: string;
  /** `overview`, instead of a path. */
  readonly kind?: string;
  /** The namespace of an overview; empty: the whole cluster. */
  readonly namespace?: string;
  readonly table?: boolean;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly limit?: number;
}

interface Snapshot {
  readonly type: "snapshot";
  readonly columns?: readonly TableColumn[];
  readonly rows?: readonly Row[];
  readonly objects?: readonly KubernetesObject[];
  readonly overview?: unknown;
  readonly resourceVersion?: string;
  readonly remaining?: number;
  /** More pages of the same list follow, as changes. */
  readonly more?: boolean;
}

interface Changes {
  readonly type: "changes";
  readonly changes?: readonly Change<Row & KubernetesObject>[];
  readonly overview?: unknown;
  readonly resourceVersion?: string;
  /** Only in further pages of the first list, which come as changes: whether more of them follow. */
  readonly more?: boolean;
}

export type StreamMessage = Snapshot | Changes;

export interface Listener {
  onMessage(message: StreamMessage): void;
  onError(error: ApiError): void;
}

interface Subscription {
  readonly request: SubscriptionRequest;
  readonly listener: Listener;
}

export type StreamState = "connecting" | "open" | "broken";

const FIRST_RETRY_MS = 500;
const CHANGES_SETTLE_MS = 500;
const LONGEST_RETRY_MS = 15_000;
const PROTOCOL = "sampan.stream.v1";
/** The close code of a server that ended the session. */
const LOGGED_OUT = 4401;

export class StreamClient {
  readonly state: Signal<StreamState> = signal("connecting");
  /** When the next attempt to connect takes place, in milliseconds since the epoch. */
  readonly retryAt: Signal<number> = signal(0);
  private readonly connect: () => WebSocket;
  private readonly subscriptions = new Map<number, Subscription>();
  private socket: WebSocket | null = null;
  private nextId = 1;
  private failures = 0;
  private timer = 0;

  constructor(connect: () => WebSocket) {
    this.connect = connect;
  }

  subscribe(request: SubscriptionRequest, listener: Listener): () => void {
    const id = this.nextId++;
    this.subscriptions.set(id, { request, listener });
    if (!this.socket) this.open();
    else this.sendSubscription(id, request);
    return () => this.unsubscribe(id);
  }

  /** Connects at once instead of at the end of the backoff. */
  retryNow(): void {
    if (this.state.peek() !== "broken") return;
    window.clearTimeout(this.timer);
    this.open();
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.subscriptions.clear();
    this.closeSocket();
    this.state.value = "connecting";
  }

  private unsubscribe(id: number): void {
    if (!this.subscriptions.delete(id)) return;
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ id, op: "unsubscribe" }));
  }

  private open(): void {
    const socket = this.connect();
    this.socket = socket;
    let wasOpen = false;
    socket.onopen = () => {
      wasOpen = true;
      this.failures = 0;
      this.state.value = "open";
      for (const [id, { request }] of this.subscriptions) this.sendSubscription(id, request);
    };
    socket.onmessage = (event: MessageEvent<string>) => this.receive(event.data);
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      // A handshake that is refused says no more than that it failed: the server may have been restarted and not know the
      // session any more. A 401 ends the session here too.
      if (event.code === LOGGED_OUT || !wasOpen) void checkSession().catch(() => undefined);
      this.scheduleRetry();
    };
  }

  private closeSocket(): void {
    const socket = this.socket;
    this.socket = null;
    if (socket) {
      socket.onclose = null;
      socket.close();
    }
  }

  private scheduleRetry(): void {
    this.closeSocket();
    if (this.subscriptions.size === 0) return;
    const delay = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures++);
    this.state.value = "broken";
    this.retryAt.value = Date.now() + delay;
    this.timer = window.setTimeout(() => this.open(), delay);
  }

  private sendSubscription(id: number, request: SubscriptionRequest): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ id, op: "subscribe", ...request }));
  }

  private receive(data: string): void {
    const message = JSON.parse(data) as { id: number } & (StreamMessage | { type: "error"; status: Status });
    const subscription = this.subscriptions.get(message.id);
    if (!subscription) return;
    if (message.type === "error") {
      subscription.listener.onError(new ApiError(message.status));
      return;
    }
    subscription.listener.onMessage(message);
  }
}

const streams = new Map<string, StreamClient>();

export function stream(name: string): StreamClient {
  let client = streams.get(name);
  if (!client) {
    const target = cluster(name);
    client = new StreamClient(() => new WebSocket(target.socketUrl("stream"), target.socketProtocols(PROTOCOL)));
    streams.set(name, client);
  }
  return client;
}

export function closeStreams(): void {
  for (const client of streams.values()) client.close();
  streams.clear();
}

export interface LiveObject {
  /** undefined until the first snapshot; null when the object does not exist (any more). */
  readonly object: KubernetesObject | null | undefined;
  readonly error: ApiError | null;
}

/** Follows one object. `listPath` is the path of its list, such as `/api/v1/namespaces/x/pods`. */
export function useLiveObject(clusterName: string, listPath: string, name: string): LiveObject {
  const objects = useLiveObjects(clusterName, listPath ? { path: listPath, fieldSelector: `metadata.name=${name}` } : null);
  const [object] = objects.objects ?? [];
  return { object: objects.objects ? (object ?? null) : undefined, error: objects.error };
}

/** Calls back once the list is known, and when its objects come, change or go, with no more than their table rows read. */
export function useChanges(clusterName: string, path: string | null, onChange: () => void): void {
  const latest = useRef(onChange);
  latest.current = onChange;
  useEffect(() => {
    if (!path) return undefined;
    let timer = 0;
    const unsubscribe = stream(clusterName).subscribe({ path, table: true, limit: 500 }, {
      onMessage(message) {
        if (message.more) return; // Further pages of the first list follow.
        window.clearTimeout(timer);
        timer = window.setTimeout(() => latest.current(), CHANGES_SETTLE_MS);
      },
      onError: () => undefined, // Who may not follow the list is not told of changes.
    });
    return () => {
      window.clearTimeout(timer);
      unsubscribe();
    };
  }, [clusterName, path]);
}

export interface LiveObjects {
  readonly objects: readonly KubernetesObject[] | undefined;
  readonly error: ApiError | null;
}

/** Follows the objects of a list; null follows nothing. */
export function useLiveObjects(clusterName: string, request: SubscriptionRequest | null): LiveObjects {
  const [live, setLive] = useState<LiveObjects>({ objects: undefined, error: null });
  const key = request && JSON.stringify(request);
  const current = useRef(new Map<string, KubernetesObject>());
  useEffect(() => {
    if (!key) return undefined;
    const objects = (current.current = new Map<string, KubernetesObject>());
    setLive({ objects: undefined, error: null });
    return stream(clusterName).subscribe(JSON.parse(key) as SubscriptionRequest, {
      onMessage(message) {
        if (message.type === "snapshot") {
          objects.clear();
          for (const object of message.objects ?? []) objects.set(objectKey(object.metadata), object);
        } else
          for (const [verb, value] of message.changes ?? []) {
            if (verb === "PUT") objects.set(objectKey(value.metadata), value);
            else objects.delete(value);
          }
        setLive({ objects: [...objects.values()], error: null });
      },
      onError: (error) => setLive((before) => ({ objects: before.objects, error })),
    });
  }, [clusterName, key]);
  return live;
}

/** `ns/name`, or `name` for an object without namespace: the key of changes. */
export function objectKey(metadata: Partial<ObjectMeta>): string {
  return metadata.namespace ? `${metadata.namespace}/${metadata.name ?? ""}` : (metadata.name ?? "");
}
