"""Reads of the objects that a description needs besides the described object: its events, pods and other related
objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api.addresses import join_host_port
from sampan.api.values.ages import UNKNOWN
from sampan.kubectl.client.session import Session
from sampan.kubectl.describers.layout import Lines, Value, controller_of, format_age, items, meta, part
from sampan.kubectl.errors import ServerError


class ClusterView:
    """Reads objects for one `describe` command, in chunks of at most `chunk_size` objects."""

    def __init__(self, *, session: Session, shows_events: bool, chunk_size: int) -> None:
        self.shows_events = shows_events
        self._session = session
        self._chunk_size = chunk_size

    def get(self, path: str) -> Value:
        value: Value = self._session.get(path)
        return value

    def list_objects(self, path: str, **selectors: str) -> list[Any]:
        """Return all objects of a collection that match `labelSelector` and `fieldSelector`."""
        query = {name: selector for name, selector in selectors.items() if selector}
        if self._chunk_size > 0:
            query["limit"] = str(self._chunk_size)
        collected: list[Any] = []
        while True:
            response = self._session.get(path, query)
            collected += response.get("items") or []
            token = part(response, "metadata").get("continue")
            if not token:
                return collected
            query["continue"] = token

    def list_if_served(self, path: str, **selectors: str) -> list[Any] | None:
        """Return all objects of a collection that match the selectors. Return None if the server does not serve the
        collection or the user may not list it."""
        try:
            return self.list_objects(path, **selectors)
        except ServerError as error:
            if error.error.reason not in ("NotFound", "Forbidden"):
                raise
            return None

    def pods(self, namespace: str, **selectors: str) -> list[Any]:
        return self.list_objects(f"/api/v1/namespaces/{namespace}/pods", **selectors)

    def phases(self, obj: Value, selector: str) -> str:
        """Return a line with the number of pods of a controller in each phase."""
        counts = {"Running": 0, "Pending": 0, "Succeeded": 0, "Failed": 0}
        for pod in self.pods(meta(obj).get("namespace", ""), labelSelector=selector):
            owner = controller_of(pod)
            phase = part(pod, "status").get("phase")
            if owner is not None and owner.get("uid") == meta(obj).get("uid") and phase in counts:
                counts[phase] += 1
        return (
            f"{counts['Running']} Running / {counts['Pending']} Waiting / {counts['Succeeded']} Succeeded / "
            f"{counts['Failed']} Failed"
        )

    def events(self, obj: Value, *, kind: str = "", uids: tuple[str, ...] = ()) -> Lines:
        """Yield the lines of the events about an object, which end its description; nothing with
        --show-events=false."""
        if not self.shows_events:
            return
        metadata = meta(obj)
        namespace = metadata.get("namespace", "")
        events: list[Any] = []
        try:
            for uid in uids or (metadata.get("uid", ""),):
                terms = {
                    "involvedObject.name": metadata.get("name", ""),
                    "involvedObject.namespace": namespace,
                    "involvedObject.kind": kind,
                    "involvedObject.uid": uid,
                }
                if not namespace:
                    del terms["involvedObject.namespace"]
                selector = ",".join(f"{field}={value}" for field, value in terms.items() if value)
                path = f"/api/v1/namespaces/{namespace}/events" if namespace else "/api/v1/events"
                events += self.list_objects(path, fieldSelector=selector)
        except ServerError:
            pass
        yield from event_lines(events)


def event_lines(events: list[Any]) -> Lines:
    """Yield the table of events, oldest first."""
    if not events:
        yield "Events:\t<none>"
        return
    yield "Events:"
    yield "  Type\tReason\tAge\tFrom\tMessage"
    yield "  ----\t------\t----\t----\t-------"
    for event in sorted(events, key=_last_time):
        source = part(event, "source").get("component") or event.get("reportingComponent", "")
        message = str(event.get("message", "")).strip()
        if path := part(event, "involvedObject").get("fieldPath"):
            message = f"{path}: {message}"
        cells = (event.get("type", ""), event.get("reason", ""), _interval(event), source, message)
        yield "  " + "\t".join(str(cell) for cell in cells)


def _interval(event: Mapping[str, Any]) -> str:
    first = format_age(event.get("eventTime") or event.get("firstTimestamp"))
    if series := event.get("series"):
        return f"{format_age(series.get('lastObservedTime'))} (x{series.get('count', 0)} over {first})"
    count = event.get("count") or 0
    return (
        f"{format_age(event.get('lastTimestamp')) if count > 1 else UNKNOWN} (x{count} over {first})"
        if count > 1
        else first
    )


def _last_time(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or "")


def service_slices(view: ClusterView, namespace: str, service: str) -> list[Any]:
    """Return the EndpointSlices of a service."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    return view.list_objects(path, labelSelector=f"kubernetes.io/service-name={service}")


def endpoints_text(slices: list[Any], port_name: str) -> str:
    """Return the first three ready endpoints of a port, and how many more there are."""
    if not slices:
        return "<none>"
    addresses = [
        _host_port(endpoint["addresses"][0], port)
        for endpoint_slice in slices
        for port in items(endpoint_slice, "ports") or [None]
        for endpoint in items(endpoint_slice, "endpoints")
        if (port is None or (port.get("name") or "") == port_name)
        and part(endpoint, "conditions").get("ready") is not False
    ]
    text = ",".join(addresses[:3])
    return f"{text} + {len(addresses) - 3} more..." if len(addresses) > 3 else text


def _host_port(address: str, port: Value | None) -> str:
    if port is None:
        return address
    return join_host_port(address, str(port.get("port")))
