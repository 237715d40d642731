"""Which range a cluster takes that was told none."""

from __future__ import annotations

from ipaddress import IPv4Network

from sampan.machinery.clock import VirtualClock
from sampan.network.pods import BridgeConfig, BridgeNetwork, free_cidr
from sampan.network.pods.addresses import first_free
from tests.network.pods.lab import Lab, needs_network

CANDIDATES = ["192.0.2.0/24", "10.244.0.0/16", "10.245.0.0/16"]


def test_the_first_that_is_free() -> None:
    assert first_free(CANDIDATES, []) == "192.0.2.0/24"
    assert first_free(CANDIDATES, [IPv4Network("192.0.2.128/25"), IPv4Network("10.0.0.0/9")]) == "10.244.0.0/16"
    assert first_free(CANDIDATES, [IPv4Network("192.0.0.0/8"), IPv4Network("10.0.0.0/8")]) == "192.0.2.0/24"


@needs_network
def test_two_clusters_on_one_machine(lab: Lab) -> None:
    pod = lab.space("one")

    async def main() -> None:
        assert free_cidr(CANDIDATES, "tst0") == "10.244.0.0/16"  # the first is the node's own
        config = BridgeConfig(bridge="tst0")
        async with BridgeNetwork(directory=lab.node.parent / "records", config=config, clock=VirtualClock()) as net:
            net.use_pod_cidrs(["10.244.7.0/24"])
            await net.attach("one", pod, [])
            assert free_cidr(CANDIDATES, "tst0") == "10.244.0.0/16"
            assert free_cidr(CANDIDATES, "tst1") == "10.245.0.0/16"
            await net.remove_all()

    lab.run(main)
