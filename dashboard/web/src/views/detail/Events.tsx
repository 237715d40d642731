/** Events about one object, the latest first. */
import { catalog } from "../../app/i18n";
import { at, text, type KubernetesObject } from "../../app/kubernetes";
import { useLiveObjects, type LiveObjects } from "../../app/stream";
import { kubectl } from "../../app/kubectl";
import { Age, Empty, ErrorBox, KubectlHint, Loading, Status } from "../../components";
import type { DetailTabProps } from "..";

const t = catalog({
  none: ["No events", "没有事件"],
  noneNext: ["Kubernetes keeps events for an hour. Nothing has happened to this object since.", "Kubernetes 只保留一小时内的事件。此后该对象没有新的事件。"],
  times: ["{n} times", "{n} 次"],
});

export function useEvents(cluster: string, object: KubernetesObject): LiveObjects {
  const { uid, namespace } = object.metadata;
  const isEvent = object.kind === "Event";
  return useLiveObjects(cluster, isEvent || !uid ? null : { path: `/api/v1${namespace ? `/namespaces/${namespace}` : ""}/events`, fieldSelector: eventSelector(object), limit: 200 });
}

/** Events of nodes carry the node's name as uid in some clusters: nodes are selected by name. */
function eventSelector(object: KubernetesObject): string {
  const { uid = "", name } = object.metadata;
  return object.kind === "Node" ? `involvedObject.kind=Node,involvedObject.name=${name}` : `involvedObject.uid=${uid}`;
}

export function eventTime(event: KubernetesObject): string {
  return text(at(event, "series", "lastObservedTime") ?? event["lastTimestamp"] ?? event["eventTime"] ?? event.metadata.creationTimestamp);
}

export function EventList({ events, limit }: { events: readonly KubernetesObject[]; limit?: number }) {
  const latest = [...events].sort((a, b) => eventTime(b).localeCompare(eventTime(a))).slice(0, limit);
  return (
    <ul class="events">
      {latest.map((event) => {
        const count = Number(at(event, "series", "count") ?? event["count"] ?? 1);
        return (
          <li key={event.metadata.uid}>
            <span class="event-age muted"><Age timestamp={eventTime(event)} /></span>
            <Status text={text(event["reason"])} level={event["type"] === "Warning" ? "warning" : "neutral"} />
            <span class="event-text">{text(event["message"] ?? event["note"])}{count > 1 && <span class="muted"> · {t("times", { n: count })}</span>}</span>
            <span class="muted event-source">{text(at(event, "source", "component") || event["reportingComponent"])}</span>
          </li>
        );
      })}
    </ul>
  );
}

export default function Events({ cluster, object }: DetailTabProps) {
  const { objects, error } = useEvents(cluster, object);
  const { name, namespace } = object.metadata;
  return (
    <div class="stack">
      {error && <ErrorBox error={error} />}
      {!objects && !error && <Loading />}
      {objects?.length === 0 && <Empty title={t("none")}>{t("noneNext")}</Empty>}
      {objects && objects.length > 0 && <EventList events={objects} />}
      <KubectlHint command={kubectl("events", "--for", `${(object.kind ?? "").toLowerCase()}/${name}`, ...(namespace ? ["-n", namespace] : []))} />
    </div>
  );
}
