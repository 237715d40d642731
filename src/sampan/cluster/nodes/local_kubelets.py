"""Kubelets in the process of the API server, which calls them without HTTP. The kubelets of hollow nodes do not listen
on a port."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sampan.cluster.nodes.real_nodes import RealNodes
    from sampan.host.clock import Clock
    from sampan.kubelet.agent.kubelet import Kubelet
    from sampan.kubelet.fleet import Fleet
    from sampan.kubelet.records import NodeRecord
    from sampan.kubelet.server.server import KubeletServer


class LocalKubelets:
    """Returns the kubelet server of a node by name. Nodes may be added later."""

    def __init__(
        self, *, clock: Clock, fleet: Callable[[], Fleet | None], real: Callable[[], RealNodes | None]
    ) -> None:
        self._clock, self._fleet, self._real = clock, fleet, real
        self._servers: dict[str, tuple[object, KubeletServer]] = {}
        """Kubelet servers by node name, each with the kubelet or node record for which it was created."""

    def __call__(self, name: str) -> KubeletServer | None:
        fleet, nodes = self._fleet(), self._real()
        if nodes is not None:
            for kubelet in nodes.kubelets:
                if kubelet.config.name == name and kubelet.ready.is_set():
                    return self._get_or_make(name, kubelet, partial(self._make_agent_server, kubelet))
        if fleet is not None and (record := fleet.node(name)) is not None:
            return self._get_or_make(name, record, partial(self._make_hollow_server, fleet, record))
        self._servers.pop(name, None)
        return None

    def _get_or_make(self, name: str, owner: object, make: Callable[[], KubeletServer]) -> KubeletServer:
        entry = self._servers.get(name)
        if entry is None or entry[0] is not owner:
            entry = self._servers[name] = owner, make()
        return entry[1]

    def _make_agent_server(self, kubelet: Kubelet) -> KubeletServer:
        from sampan.kubelet.server.node_views import AgentView
        from sampan.kubelet.server.server import KubeletServer

        return KubeletServer(view=AgentView(kubelet), clock=self._clock)

    def _make_hollow_server(self, fleet: Fleet, record: NodeRecord) -> KubeletServer:
        from sampan.kubelet.server.node_views import HollowView
        from sampan.kubelet.server.server import KubeletServer

        pods = partial(fleet.pods_of, record.name)
        view = HollowView(record=record, pods=pods, find=fleet.find_pod, clock=self._clock)
        return KubeletServer(view=view, clock=self._clock)
