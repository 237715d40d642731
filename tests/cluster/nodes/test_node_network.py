"""The components beside a kubelet: started with the node, restarted when they fail, stopped with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sampan.cluster.nodes.node_network import NodeNetwork, Worker
from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.control_loop.supervision import Supervisor
from sampan.network.nodes import NodeAttachment


class _Network(NodeNetwork):
    """The network of a node with one component, which fails the first time."""

    def __init__(self, clock: VirtualClock) -> None:
        attachment = NodeAttachment(
            node="node-0", directory=Path("/none"), namespace=NetworkNamespace(), addresses=["192.0.2.1"]
        )
        super().__init__(attachment=attachment, components=(), informers={}, supervision=Supervisor(clock=clock))
        self.steps: list[str] = []
        self.is_up = asyncio.Event()

    def _workers(self) -> dict[str, Worker]:
        return {"proxy": self._proxy}

    async def _proxy(self) -> None:
        self.steps.append("start")
        if len(self.steps) == 1:
            raise OSError("no netlink")
        self.is_up.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.steps.append("stop")


def test_a_failed_component_is_restarted_and_all_stop_with_the_node(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[str]:
        clock = VirtualClock()
        network = _Network(clock)
        async with network.running():
            await clock.advance(10)
            await network.is_up.wait()
        return network.steps

    assert asyncio.run(main()) == ["start", "start", "stop"]
    assert "proxy: node-0 failed, restarting in 1 s" in caplog.text
