"""The subscription of a page to the overview, and the overview as a single response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from sampan.dashboard.overview.follower import ObjectFollower
from sampan.dashboard.overview.objects import OverviewEvent, OverviewNode, OverviewPod, OverviewWorkload, milli
from sampan.dashboard.overview.problems import WORKLOADS
from sampan.dashboard.overview.state import ClusterState, UnreadableKind
from sampan.dashboard.responses import bytes_response
from sampan.dashboard.views.api_reader import ApiReader
from sampan.diagnosis.cluster_reader import Object
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.transport import ConnectionFailed, Request
from sampan.machinery.client.user_api import UserApi

_INTERVAL_S, _LARGE_INTERVAL_S = 1.0, 3.0
_LARGE_PODS = 2000
_POLL_S = 30.0
_NODES_PER_POLL, _MAX_POLL_S = 100, 300.0
_SYNC_S = 30.0
_FIRST_S, _PARTIAL_INTERVAL_S = 0.15, 0.5
"""The delay of the first overview, and the interval of further ones, while the lists of a large cluster are still being
read."""
_EVENTS = 1000
_encode = msgspec.json.Encoder().encode


class OverviewFollower:
    """Keeps the state of a cluster, or of one of its namespaces, up to date with the rights of a person."""

    def __init__(self, api: UserApi, namespace: str = "") -> None:
        self._api, self.state = api, ClusterState()
        state, scope = self.state, f"/namespaces/{namespace}" if namespace else ""
        self._followers: dict[str, ObjectFollower[Any]] = {
            "nodes": ObjectFollower(
                api=api,
                path="/api/v1/nodes",
                type=OverviewNode,
                on_reset=lambda: state.reset(state.nodes),
                on_object=state.put_node,
                on_deleted=lambda node: state.remove(state.nodes, node.metadata.name),
            ),
            "pods": ObjectFollower(
                api=api,
                path=f"/api/v1{scope}/pods",
                type=OverviewPod,
                on_reset=lambda: state.reset(state.pods),
                on_object=state.put_pod,
                on_deleted=lambda pod: state.remove(state.pods, pod.metadata.key),
            ),
            "events": ObjectFollower(
                api=api,
                path=f"/api/v1{scope}/events",
                type=OverviewEvent,
                on_reset=lambda: state.reset(state.events),
                on_object=state.put_event,
                on_deleted=lambda event: state.remove(state.events, event.metadata.key),
                query=[("fieldSelector", "type=Warning")],
                max_objects=_EVENTS,
            ),
        }
        for resource, ((group, version, _), _) in WORKLOADS.items():
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            self._followers[resource] = ObjectFollower(
                api=api,
                path=f"{root}{scope}/{resource}",
                type=OverviewWorkload,
                on_reset=partial(state.reset, state.workloads[resource]),
                on_object=partial(state.put_workload, resource),
                on_deleted=partial(_remove_workload, state, resource),
            )

    @asynccontextmanager
    async def running(self, patience_s: float = _SYNC_S) -> AsyncIterator[None]:
        """Follow the cluster for the duration of the block. The block is entered when the first lists are complete, or
        after `patience_s` seconds."""
        failure: Exception | None = None
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(follower.run()) for follower in self._followers.values()]
            tasks.append(group.create_task(self._poll()))
            try:
                async with asyncio.timeout(patience_s):
                    for follower in self._followers.values():
                        await follower.synced.wait()
            except TimeoutError:
                pass  # the overview shows the objects that have been read
            try:
                yield
            except Exception as error:  # raised again below, outside of the exception group
                failure = error
            finally:
                for task in tasks:
                    task.cancel()
        if failure is not None:
            raise failure

    @property
    def is_complete(self) -> bool:
        """Whether the first list of each kind has been read or has failed."""
        return all(follower.synced.is_set() for follower in self._followers.values())

    def value(self) -> dict[str, Any]:
        return {**self.state.overview(self.list_unreadable()), "isComplete": self.is_complete}

    def list_unreadable(self) -> dict[str, UnreadableKind]:
        """Return the kinds that cannot be read, by resource."""
        return {
            name: UnreadableKind(is_forbidden=follower.is_forbidden, message=follower.failure)
            for name, follower in self._followers.items()
            if follower.failure
        }

    async def _poll(self) -> None:
        """Poll the data that cannot be watched or rarely changes: health checks of the API server, the store, the
        addresses of the network, and resource usage. For resource usage the API server asks every kubelet. It is
        therefore read only after the first lists, and less often in a large cluster."""
        reader, usage_due, loop = ApiReader(self._api), 0.0, asyncio.get_running_loop()
        while True:
            self.state.components = await self._health()
            self.state.store, self.state.network = await read_store(reader), await read_network(reader)
            self.state.version += 1
            if loop.time() >= usage_due:
                for follower in self._followers.values():
                    await follower.synced.wait()
                self.state.node_usage = await _node_usage(reader)
                self.state.version += 1
                usage_due = loop.time() + usage_interval_s(len(self.state.nodes))
            await asyncio.sleep(_POLL_S)

    async def _health(self) -> list[dict[str, Any]]:
        request = Request(method="GET", path="/readyz", query=[("verbose", "")], headers={"Accept": "*/*"})
        try:
            text = (await self._api.send(request)).body().decode("utf-8", "replace")
        except errors.Forbidden:
            return []
        except errors.ApiError as error:
            text = errors.response_text(error)
        except ConnectionFailed as error:
            return [{"name": "apiserver", "healthy": False, "message": str(error)}]
        return [
            {"name": line[3:].partition(" ")[0], "healthy": line.startswith("[+]"), "message": line[3:].strip()[:300]}
            for line in text.splitlines()
            if line.startswith(("[+]", "[-]"))
        ]


def usage_interval_s(node_count: int) -> float:
    """Return the interval, in seconds, at which the resource usage of all nodes is read."""
    return min(_MAX_POLL_S, _POLL_S * max(1.0, node_count / _NODES_PER_POLL)) - 1.0


def _remove_workload(state: ClusterState, resource: str, workload: OverviewWorkload) -> None:
    state.remove(state.workloads[resource], workload.metadata.key)


async def _node_usage(reader: ApiReader) -> dict[str, tuple[int, int]]:
    try:
        items = (await reader.get("/apis/metrics.k8s.io/v1beta1/nodes") or {}).get("items") or ()
    except (errors.ApiError, ConnectionFailed):
        return {}
    return {
        str(item["metadata"]["name"]): (
            milli(str(item["usage"].get("cpu", "0"))),
            milli(str(item["usage"].get("memory", "0"))) // 1000,
        )
        for item in items
    }


class OverviewSubscription:
    """Sends the overview when it has changed, at most once a second, or every few seconds for a large cluster. While
    the first lists of a large cluster are read, it sends incomplete overviews, so that the page has something to show
    at once."""

    def __init__(
        self,
        *,
        identifier: int,
        api: UserApi,
        namespace: str,
        send: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._id, self._send = identifier, send
        self._follower = OverviewFollower(api, namespace)

    def take(self) -> bytes | None:
        return None

    async def run(self) -> None:
        state = self._follower.state
        async with self._follower.running(_FIRST_S):
            sent, sent_value, kind, was_complete = None, b"", b"snapshot", False
            while True:
                was_complete = self._follower.is_complete
                current = (state.version, was_complete, self._follower.list_unreadable())
                if current != sent:
                    sent = current
                    value = _encode(self._follower.value())
                    if value != sent_value:
                        await self._send(b'{"id":%d,"type":"%b","overview":%b}' % (self._id, kind, value))
                        sent_value, kind = value, b"changes"
                await asyncio.sleep(self._pause_s() if was_complete else _PARTIAL_INTERVAL_S)

    def _pause_s(self) -> float:
        return _LARGE_INTERVAL_S if len(self._follower.state.pods) > _LARGE_PODS else _INTERVAL_S


async def overview(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    follower = OverviewFollower(api, check_namespace(request.query.get("namespace", "")))
    async with follower.running():
        return bytes_response(_encode(follower.value()))


def check_namespace(namespace: str) -> str:
    if "/" in namespace or "%" in namespace or len(namespace) > 63:
        raise errors.bad_request("namespace: not the name of a namespace")
    return namespace


_STORE = "/debug/store-status"
_SERVICE_CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
_DNS = "/api/v1/namespaces/kube-system/services/kube-dns"
_STORE_FIELDS = ("kind", "sizeBytes", "objects", "objectBytes", "watchers", "revision", "writeFailure", "largest")


async def read_store(reader: ApiReader) -> dict[str, Any] | None:
    status = await _read(reader, _STORE)
    return {name: status[name] for name in _STORE_FIELDS if name in status} if status is not None else None


async def read_network(reader: ApiReader) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if (cidrs := await _read(reader, _SERVICE_CIDRS)) is not None:
        facts["serviceCidrs"] = [cidr for item in cidrs.get("items") or () for cidr in item["spec"].get("cidrs") or ()]
    if (service := await _read(reader, _DNS)) is not None:
        facts["dns"] = [address for address in (service["spec"].get("clusterIPs") or ()) if address != "None"]
    return facts


async def _read(reader: ApiReader, path: str) -> Object | None:
    try:
        return await reader.get(path)
    except (errors.ApiError, ConnectionFailed):
        return None
