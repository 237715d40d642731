"""The metrics that autoscalers read: the interface of their source, and the metrics APIs as the default source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sampan.api.codec import json
from sampan.api.selectors.labels import Selector
from sampan.api.types.autoscaling_v2 import CrossVersionObjectReference
from sampan.api.values import durations, quantity
from sampan.api.values.times import parse_time
from sampan.controllers.autoscaling.target import ScaleKinds, UnknownKind
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.client.transport import Request


class MetricsUnavailable(Exception):
    """No samples are available; the message states the reason."""


@dataclass(frozen=True, slots=True)
class PodMetric:
    value: int
    timestamp: float = 0.0
    window_s: float = 0.0
    """The length, in seconds, of the window that ends at the timestamp and over which the value is averaged."""


PodMetrics = Mapping[str, PodMetric]
"""The samples of one metric, by pod name."""


class MetricsSource(Protocol):
    """A source of metrics. Every method raises MetricsUnavailable if it has no samples."""

    async def get_resource_metric(self, resource: str, namespace: str, pods: Selector, container: str) -> PodMetrics:
        """Return the resource usage per pod, or that of the named container if `container` is not empty."""

    async def get_pods_metric(self, metric: str, namespace: str, pods: Selector, selector: Selector) -> PodMetrics: ...

    async def get_object_metric(
        self, metric: str, namespace: str, described: CrossVersionObjectReference, selector: Selector
    ) -> int: ...

    async def get_external_metric(self, metric: str, namespace: str, selector: Selector) -> Sequence[int]: ...


_RESOURCE, _CUSTOM, _EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
_CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
_WINDOW_S = 60.0
"""The averaging window of custom metrics that state none."""
_JSON = {"Accept": "application/json"}


class ApiMetrics:
    """A MetricsSource that queries the metrics APIs."""

    def __init__(self, client: Client) -> None:
        self._client, self._kinds = client, ScaleKinds(client)

    async def get_resource_metric(self, resource: str, namespace: str, pods: Selector, container: str) -> PodMetrics:
        path = f"/apis/{_RESOURCE}/v1beta1/namespaces/{namespace}/pods"
        items = await self._items("resource", path, f"pods.{_RESOURCE}", labelSelector=str(pods))
        metrics = {item["metadata"]["name"]: _sum_usage(item, resource, container) for item in items}
        return {name: metric for name, metric in metrics.items() if metric is not None}

    async def get_pods_metric(self, metric: str, namespace: str, pods: Selector, selector: Selector) -> PodMetrics:
        query = {"labelSelector": str(pods), "metricLabelSelector": str(selector)}
        items = await self._fetch_custom_metrics(f"namespaces/{namespace}/pods/*/{metric}", f"pods.{_CUSTOM}", **query)
        return {item["describedObject"]["name"]: _custom_metric(item) for item in items}

    async def get_object_metric(
        self, metric: str, namespace: str, described: CrossVersionObjectReference, selector: Selector
    ) -> int:
        path = await self._resolve_path(namespace, described)
        items = await self._fetch_custom_metrics(
            f"{path}/{metric}", f"{metric}.{_CUSTOM}", metricLabelSelector=str(selector)
        )
        if len(items) != 1:
            message = f"the custom metrics API server returned {len(items)} results when we asked for exactly one"
            raise MetricsUnavailable(f"unable to fetch metrics from custom metrics API: {message}")
        return _milli(items[0]["value"])

    async def get_external_metric(self, metric: str, namespace: str, selector: Selector) -> Sequence[int]:
        path = f"/apis/{_EXTERNAL}/v1beta1/namespaces/{namespace}/{metric}"
        items = await self._items("external", path, f"{metric}.{_EXTERNAL}", labelSelector=str(selector))
        return [_milli(item["value"]) for item in items]

    async def _resolve_path(self, namespace: str, described: CrossVersionObjectReference) -> str:
        group = described.apiVersion.partition("/")[0] if "/" in described.apiVersion else ""
        if (group, described.kind) == ("", "Namespace"):
            return f"namespaces/{namespace}/metrics"
        try:
            resource = await self._kinds.resource(group, described.kind)
        except UnknownKind as error:
            kind = f"{described.kind}.{group}" if group else described.kind
            message = f"unable to map kind {kind} to resource: {error}"
            raise MetricsUnavailable(f"unable to fetch metrics from custom metrics API: {message}") from None
        return f"namespaces/{namespace}/{resource.qualified}/{described.name}"

    async def _fetch_custom_metrics(self, path_suffix: str, subject: str, **parameters: str) -> list[Mapping[str, Any]]:
        version = await self._custom_version()
        return await self._items("custom", f"/apis/{_CUSTOM}/{version}/{path_suffix}", subject, **parameters)

    async def _custom_version(self) -> str:
        try:
            group = await self._read(f"/apis/{_CUSTOM}", _CUSTOM)
        except errors.NotFound:
            message = f"no custom metrics API ({_CUSTOM}) registered"
            raise MetricsUnavailable(f"unable to fetch metrics from custom metrics API: {message}") from None
        except (errors.ApiError, ConnectionFailed) as error:
            raise MetricsUnavailable(f"unable to fetch metrics from custom metrics API: {error}") from error
        served = [version["version"] for version in group.get("versions") or ()]
        for version in (group.get("preferredVersion", {}).get("version", ""), *served):
            if version in _CUSTOM_VERSIONS:
                return str(version)
        raise MetricsUnavailable(
            "unable to fetch metrics from custom metrics API: no known available metric versions found"
        )

    async def _items(self, api: str, path: str, subject: str, **parameters: str) -> list[Mapping[str, Any]]:
        try:
            document = await self._read(path, subject, **parameters)
        except (errors.ApiError, ConnectionFailed) as error:
            raise MetricsUnavailable(f"unable to fetch metrics from {api} metrics API: {error}") from None
        items: list[Mapping[str, Any]] = document.get("items") or []
        if not items:
            raise MetricsUnavailable(f"no metrics returned from {api} metrics API")
        return items

    async def _read(self, path: str, subject: str, **parameters: str) -> Mapping[str, Any]:
        query = [(key, value) for key, value in parameters.items() if value]
        try:
            response = await self._client.send(Request(method="GET", path=path, query=query, headers=_JSON))
        except errors.NotFound as error:
            if "(get " in str(error) or error.details.get("name"):
                raise
            raise errors.NotFound(f"the server could not find the requested resource (get {subject})") from None
        document: Mapping[str, Any] = json.read_any(response.body())
        return document


def _sum_usage(item: Mapping[str, Any], resource: str, container: str) -> PodMetric | None:
    """Return the usage in one PodMetrics item, or None if a container lacks the resource."""
    containers = [entry for entry in item.get("containers") or () if container in ("", entry["name"])]
    values = [entry.get("usage", {}).get(resource) for entry in containers]
    if not values or any(value is None for value in values):
        return None
    window_s = durations.parse_duration(item.get("window", "0s")) / 1e9
    return PodMetric(sum(_milli(value) for value in values), _time(item), window_s)


def _custom_metric(item: Mapping[str, Any]) -> PodMetric:
    window = item.get("windowSeconds", item.get("window"))
    return PodMetric(_milli(item["value"]), _time(item), _WINDOW_S if window is None else float(window))


def _time(item: Mapping[str, Any]) -> float:
    return parse_time(item["timestamp"]) if item.get("timestamp") else 0.0


def _milli(value: Any) -> int:
    return quantity.from_json(value).milli_value()
