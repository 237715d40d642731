/** The pods of a namespace for the map: rows of the table, which are a tenth of the objects, at most once a second. */
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../../app/http";
import type { TableColumn } from "../../app/kubernetes";
import { stream, type Row } from "../../app/stream";
import type { GraphNode, MapPod } from "./graph";

const INTERVAL_MS = 1000;
const BAD = /Err|Fail|BackOff|Invalid|Evicted|OOM|Unknown/;

export function podLevel(ready: string, status: string, isDeleted: boolean): GraphNode["level"] {
  if (isDeleted) return "progress";
  if (BAD.test(status)) return "bad";
  if (status === "Completed" || status === "Succeeded") return "neutral";
  const [running = "0", all = "0"] = ready.split("/");
  return running === all && Number(all) > 0 ? "good" : "progress";
}

/** Reads rows of a table with these columns. */
export function podReader(columns: readonly TableColumn[]): (row: Row) => MapPod {
  const place = (name: string): number => columns.findIndex((column) => column.name === name);
  const [ready, status, node] = [place("Ready"), place("Status"), place("Node")];
  const cell = (row: Row, index: number): string => (index < 0 ? "" : String(row.cells[index] ?? ""));
  return (row) => {
    const [namespace = "", name = ""] = row.key.split("/");
    const { labels, deletionTimestamp, ownerReferences } = row.metadata;
    return {
      namespace, name, labels: labels ?? {}, node: cell(row, node).replace("<none>", ""),
      owner: ownerReferences?.find((owner) => owner.controller)?.name ?? "",
      level: podLevel(cell(row, ready), cell(row, status), Boolean(deletionTimestamp)),
    };
  };
}

export interface MapPods {
  readonly pods: readonly MapPod[] | undefined;
  readonly error: ApiError | null;
}

export function useMapPods(cluster: string, path: string): MapPods {
  const [live, setLive] = useState<MapPods>({ pods: undefined, error: null });
  useEffect(() => {
    const pods = new Map<string, MapPod>();
    let read = podReader([]);
    let timer = 0;
    setLive({ pods: undefined, error: null });
    const show = (): void => {
      timer = 0;
      setLive({ pods: [...pods.values()], error: null });
    };
    const stop = stream(cluster).subscribe({ path, table: true, limit: 1000 }, {
      onMessage(message) {
        if (message.type === "snapshot") {
          pods.clear();
          read = podReader(message.columns ?? []);
          for (const row of message.rows ?? []) pods.set(row.key, read(row));
          show();
          return;
        }
        for (const [verb, value] of message.changes ?? []) {
          if (verb === "PUT") pods.set(value.key, read(value));
          else pods.delete(value);
        }
        timer ||= window.setTimeout(show, INTERVAL_MS);
      },
      onError: (error) => setLive((before) => ({ pods: before.pods, error })),
    });
    return () => {
      window.clearTimeout(timer);
      stop();
    };
  }, [cluster, path]);
  return live;
}
