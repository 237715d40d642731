"""The resources of the metrics API, served once there is a kubelet, unless an APIService takes them over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sampan.api.resources.resource import Resource
from sampan.api.schema.tree import from_openapi
from sampan.api.types.apiregistration_v1 import APIService
from sampan.api.types.core_v1 import Node, Pod
from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.handlers import Handler
from sampan.apiserver.metrics_api import resource_metrics
from sampan.apiserver.metrics_api.resource_metrics import GROUP, VERSIONS, KubeletSummaries, Value
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.request import options
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.request.negotiation import JSON, TABLE
from sampan.apiserver.response.responses import ApiResponse, ValueResponse
from sampan.machinery import errors
from sampan.storage.backend import StorageError
from sampan.storage.cacher import ADDED, MODIFIED, CacheError, ListQuery, ObjectSelection, WatchQuery
from sampan.storage.cacher.follower import follow_changes

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.pipeline import Pipeline
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.request.call import Call

log = logging.getLogger(__name__)

_VERBS = ("get", "list")
_QUANTITIES: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"x-kubernetes-int-or-string": True},
}
_TIMES: dict[str, Any] = {"timestamp": {"type": "string", "format": "date-time"}, "window": {"type": "string"}}


def _schema(**properties: Any) -> Any:
    title = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return from_openapi({"type": "object", "properties": {**title, **_TIMES, **properties}})


_CONTAINERS = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "usage": _QUANTITIES}},
}


def _resource(version: str, kind: str, plural: str, *, namespaced: bool, schema: Any) -> Resource:
    return Resource(
        group=GROUP,
        version=version,
        kind=kind,
        plural=plural,
        singular="",
        namespaced=namespaced,
        verbs=_VERBS,
        schema=schema,
    )


_NODES = [
    _resource(version, "NodeMetrics", "nodes", namespaced=False, schema=_schema(usage=_QUANTITIES))
    for version in VERSIONS
]
_PODS = [
    _resource(version, "PodMetrics", "pods", namespaced=True, schema=_schema(containers=_CONTAINERS))
    for version in VERSIONS
]


class MetricsApi:
    """Serves the metrics API once there is a kubelet, unless an APIService names another server for it."""

    def __init__(self, *, pipeline: Pipeline, summaries: KubeletSummaries) -> None:
        self._pipeline, self._summaries = pipeline, summaries
        self._registry = pipeline.endpoints.registry
        self._services: dict[str, APIService] = {}
        """The APIServices that name another server for a version, by version."""
        self._has_kubelets = False

    async def run(self, kubelets: asyncio.Event) -> None:
        """Run until cancelled. `kubelets` is set if there are kubelets in this process; otherwise the first node is
        awaited."""
        async with asyncio.TaskGroup() as group:
            for version in VERSIONS:
                group.create_task(self._follow_service(version))
            seeking = group.create_task(self._wait_for_kubelet(kubelets))
            await kubelets.wait()
            seeking.cancel()
            self._has_kubelets = True
            await ensure_reader_role(self._pipeline)
            self._apply()

    async def _wait_for_kubelet(self, kubelets: asyncio.Event) -> None:
        await wait_for_kubelet(self._registry)
        kubelets.set()

    async def _follow_service(self, version: str) -> None:
        name = f"{version}.{GROUP}"
        services = self._registry.open_store_of("apiregistration.k8s.io", "v1", "APIService")

        async def sync() -> None:
            item = await services.cacher.get("", name)
            service: APIService | None = services.cacher.object(item) if item is not None else None
            self._services.pop(version, None)
            if service is not None and service.spec.service is not None:
                self._services[version] = service
            self._apply()

        query = WatchQuery(ObjectSelection(name=name))
        await follow_changes(services.cacher, f"APIService {name}", sync, query)

    def _apply(self) -> None:
        scheme, handlers = self._registry.scheme, self._handlers()
        for resource in (*_NODES, *_PODS):
            is_served = scheme.resource(GROUP, resource.version, resource.plural) is resource
            if handlers is None:
                if is_served:
                    scheme.remove(resource)
                continue
            if not is_served:
                scheme.add(resource)
            self._registry.set_behavior(resource, ResourceBehavior())
            self._pipeline.handlers.add(resource, {"": handlers[resource.plural]})

    def _handlers(self) -> dict[str, Handler] | None:
        """Return the handlers by plural; None while the API is not served."""
        if self._services or not self._has_kubelets:
            return None
        return {"nodes": self._serve_nodes, "pods": self._serve_pods}

    async def _serve_nodes(self, endpoints: ApiEndpoints, call: Call) -> ApiResponse:
        version, items = _get_resource(call).version, await self._list_objects("Node", call)
        nodes: list[Node] = list(items)
        summaries = await self._summaries.fetch_all(node.metadata.name for node in nodes)
        metrics = []
        for node in nodes:
            summary = summaries.get(node.metadata.name)
            node_metrics = (
                resource_metrics.node_metrics(version, node.metadata.name, node.metadata.labels, summary)
                if summary
                else None
            )
            if node_metrics is not None:
                metrics.append(node_metrics)
        return _metrics_response(call, _get_resource(call), metrics, call.name)

    async def _serve_pods(self, endpoints: ApiEndpoints, call: Call) -> ApiResponse:
        version, items = _get_resource(call).version, await self._list_objects("Pod", call)
        pods: list[Pod] = [pod for pod in items if pod.spec.nodeName and pod.status.phase == "Running"]
        summaries = await self._summaries.fetch_all({pod.spec.nodeName for pod in pods})
        stats = {node: resource_metrics.pods_of(summary) for node, summary in summaries.items()}
        metrics = []
        for pod in pods:
            meta = pod.metadata
            own = stats.get(pod.spec.nodeName, {}).get((meta.namespace, meta.name))
            pod_metrics = (
                resource_metrics.pod_metrics(version, meta.namespace, meta.name, meta.labels, own)
                if own is not None
                else None
            )
            if pod_metrics is not None:
                metrics.append(pod_metrics)
        return _metrics_response(call, _get_resource(call), metrics, f"{call.namespace}/{call.name}")

    async def _list_objects(self, kind: str, call: Call) -> list[Any]:
        store = self._registry.open_store_of("", "v1", kind)
        if call.name:
            item = await store.cacher.get(call.namespace, call.name)
            items = [item] if item is not None else []
        else:
            items = list((await store.cacher.list(options.list_query(call))).items)
        return [store.cacher.object(item) for item in items]


def _get_resource(call: Call) -> Resource:
    assert call.resource is not None
    return call.resource


def _metrics_response(call: Call, resource: Resource, metrics_objects: Sequence[Value], name: str) -> ApiResponse:
    if call.name and not metrics_objects:
        raise errors.not_found(resource.kind.lower(), name, group=GROUP)
    if call.output_format.as_kind == TABLE:
        return ValueResponse(resource_metrics.as_table(metrics_objects, call.output_format.api_version))
    if call.name:
        return ValueResponse(metrics_objects[0])
    return ValueResponse(resource_metrics.as_list(resource.version, resource.kind, metrics_objects))


_KUBELET_RETRY_S = 1.0


async def wait_for_kubelet(registry: Registry) -> None:
    """Wait until a node reports the port of its kubelet."""
    nodes = registry.open_store_of("", "v1", "Node").cacher
    while True:
        try:
            result = await nodes.list(ListQuery(ObjectSelection()))
            if _has_listening_kubelet(nodes.object(item) for item in result.items):
                return
            query = WatchQuery(ObjectSelection(), resource_version=str(result.revision))
            async with nodes.watch(query) as watcher:
                async for events in watcher:
                    if _has_listening_kubelet(
                        nodes.object(event.item) for event in events if event.type in (ADDED, MODIFIED)
                    ):
                        return
        except (CacheError, StorageError) as error:
            log.warning("metrics API: watch of nodes failed, listing again: %s", error)
            await asyncio.sleep(_KUBELET_RETRY_S)


def _has_listening_kubelet(nodes: Iterable[Node]) -> bool:
    return any(node.status.daemonEndpoints.kubeletEndpoint.Port for node in nodes)


NAME = "system:aggregated-metrics-reader"
_PATH = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_ROLE: Final[dict[str, Any]] = {
    "metadata": {
        "name": NAME,
        "labels": {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")},
    },
    "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
}


async def ensure_reader_role(pipeline: Pipeline) -> None:
    """Create the cluster role that lets users with the role view, edit or admin read metrics. An existing role is left
    alone."""
    headers = {"Content-Type": JSON, "User-Agent": "sampan-apiserver"}
    body = msgspec.json.encode(_ROLE)
    call = Call(method="POST", path=_PATH, query=Query(""), headers=headers, body=body, user=SYSTEM)
    try:
        await pipeline.serve_as(call)
    except errors.AlreadyExists:
        return
    except errors.ApiError as error:
        log.warning("cannot write the role %s of the metrics API: %s", NAME, error)
