"""The pods API of a node (`pkg/kubelet/apis/pods`, gate PodsAPI), with which agents on the node read its
pods from the kubelet, even if the API server is not reachable.

A watch compares what its client has with the pods of the node, whenever something has changed. A slow client therefore
misses intermediate states but no pod, and needs no buffer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import Clock
from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import Message
from sampan.kubelet.plugin_registry.socket_server import GrpcService, ServiceError, SocketServer

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema

_ADDED, _MODIFIED, _DELETED, _INITIAL_SYNC_COMPLETE = range(1, 5)
"""The values of EventType."""


def proto() -> ProtoSchema:
    return calls.read_schema(Path(__file__).parent / "pods.proto")


class PodsApi:
    """Serves the pods of the node on a socket while `run()` is active."""

    def __init__(self, *, root: Path, pods: Callable[[], Sequence[Pod]], clock: Clock) -> None:
        """`pods` returns all pods of the node with their latest status."""
        self._socket, self._clock, self._pods = root / "pods-api" / "pods-api.sock", clock, pods
        self._change, self._is_ready = asyncio.Event(), False

    def open(self) -> None:
        """Respond to requests from now on, because the pods of all sources are known."""
        self._is_ready = True

    def notify(self) -> None:
        """Note that the pods of the node or their statuses have changed."""
        self._change.set()
        self._change = asyncio.Event()

    async def run(self) -> None:
        service = GrpcService(
            schema=proto,
            name="Pods",
            methods={"ListPods": self._list, "GetPod": self._get},
            streams={"WatchPods": self._watch},
        )
        await SocketServer(path=self._socket, services=[service]).run(self._clock)

    async def _list(self, request: Message) -> Message:
        return proto().ListPodsResponse(pods=[encode_pod(pod) for pod in self._read_pods().values()])

    async def _get(self, request: Message) -> Message:
        pod = self._read_pods().get(request.podUID)
        if pod is None:
            raise ServiceError(f"pod with UID {request.podUID} not found", code="NOT_FOUND")
        return proto().GetPodResponse(pod=encode_pod(pod))

    async def _watch(self, request: Message) -> AsyncIterator[Message]:
        schema, sent = proto(), dict[str, Pod]()
        is_initial = True
        while True:
            change, pods = self._change, self._read_pods()
            for uid, pod in pods.items():
                if sent.get(uid) is not pod and sent.get(uid) != pod:
                    yield schema.WatchPodsEvent(type=_MODIFIED if uid in sent else _ADDED, pod=encode_pod(pod))
            for uid in sent.keys() - pods.keys():
                yield schema.WatchPodsEvent(type=_DELETED, pod=encode_pod(_identity(sent[uid])))
            if is_initial:
                yield schema.WatchPodsEvent(type=_INITIAL_SYNC_COMPLETE)
            sent, is_initial = dict(pods), False
            await change.wait()

    def _read_pods(self) -> Mapping[str, Pod]:
        """Return the pods by UID, sorted. Raise ServiceError until they are known."""
        if not self._is_ready:
            raise ServiceError("Kubelet is initializing", code="FAILED_PRECONDITION")
        return {pod.metadata.uid: pod for pod in sorted(self._pods(), key=lambda pod: pod.metadata.uid)}


def encode_pod(pod: Pod) -> bytes:
    """Return the protobuf message of a pod without an envelope."""
    from sampan.api.codec.protobuf.envelope import encode_body

    return encode_body("v1", "Pod", json.to_value(pod))


def _identity(pod: Pod) -> Pod:
    meta = pod.metadata
    return Pod(metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid))
