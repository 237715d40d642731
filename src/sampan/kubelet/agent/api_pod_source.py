"""The pod source `api`: watches the pods that are bound to this node, from the node's registration on.

Before that only static pods run. Counterpart: `pkg/kubelet/config`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sampan.api.semantics.pod_references import is_mirror_pod
from sampan.api.types.core_v1 import Node, Pod, Service
from sampan.api.types.node_v1 import RuntimeClass
from sampan.kubelet.admission import from_api
from sampan.kubelet.agent.housekeeping import Housekeeping
from sampan.kubelet.agent.static_pods import MirrorPods
from sampan.kubelet.records import NodeRecord
from sampan.kubelet.sync_loop import SyncLoop
from sampan.machinery.client import Selection

if TYPE_CHECKING:
    from sampan.machinery.informer import Informer, InformerFactory


class ApiPodSource:
    def __init__(
        self,
        *,
        node: NodeRecord,
        sync_loop: SyncLoop,
        mirrors: MirrorPods,
        housekeeping: Housekeeping,
        informers: InformerFactory,
    ) -> None:
        self._node, self._sync_loop, self._mirrors = node, sync_loop, mirrors
        self._housekeeping, self._informers = housekeeping, informers

    async def start(self, on_node: Callable[[Node | None, Node | None], None]) -> None:
        """Start the watches. The pod watch starts last, once the objects that pods need are known."""
        nodes: Informer[Node] = self._informers.of(Node, Selection(fields=f"metadata.name={self._node.name}"))
        nodes.subscribe(on_node)
        for informer in (self._informers.of(Service), self._informers.of(RuntimeClass), nodes):
            await informer.synced.wait()
        pods = self._informers.of(Pod, Selection(fields=f"spec.nodeName={self._node.name}"))
        await pods.synced.wait()
        await self._housekeeping.remove_orphans({pod.metadata.uid for pod in pods.lister})
        pods.subscribe(self._on_pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if is_mirror_pod(pod):
            self._mirrors.on_mirror(old, new)
        else:
            self._sync_loop.iteration(self._node, old, from_api(new) if new is not None else None)
