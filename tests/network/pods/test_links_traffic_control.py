"""Bandwidth limits of pods, with real traffic."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.pods import BridgeConfig, BridgeNetwork
from sampan.network.pods.links import shaper_of
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.network import UNLIMITED, PodBandwidth, bandwidth_of
from tests.network.pods.lab import Lab, listening, needs_network

LIMIT = 8_000_000
AMOUNT = 700_000
SLOW_S = 0.4
"""At the limit, sending the amount takes 0.7 s, less a small burst."""


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, UNLIMITED),
        ({"kubernetes.io/ingress-bandwidth": "10M"}, PodBandwidth(ingress_bits_per_s=10_000_000)),
        ({"kubernetes.io/egress-bandwidth": "1Mi"}, PodBandwidth(egress_bits_per_s=1 << 20)),
    ],
    ids=["none", "ingress", "egress"],
)
def test_bandwidth_limits_are_read_from_annotations(annotations: dict[str, str], expected: PodBandwidth) -> None:
    assert bandwidth_of(annotations) == expected


@pytest.mark.parametrize(("value", "reason"), [("10", "small"), ("2P", "large"), ("fast", "quantit")])
def test_invalid_bandwidth_annotations_are_rejected(value: str, reason: str) -> None:
    with pytest.raises(RuntimeFailure) as failure:
        bandwidth_of({"kubernetes.io/egress-bandwidth": value})
    assert "annotation kubernetes.io/egress-bandwidth: " in failure.value.message
    assert reason in failure.value.message


def measure_sending_time(source: Path, target: Path, address: str) -> float:
    """Return the seconds that it takes to send the amount from one namespace to another."""
    received = bytearray()

    def receive() -> None:
        peer, _ = server.accept()
        with peer:
            while len(received) < AMOUNT and (data := peer.recv(1 << 16)):
                received.extend(data)

    with listening(target, 8080) as server:
        thread = threading.Thread(target=receive)
        thread.start()
        began = time.monotonic()
        with closing(run_in_network(source, lambda: socket.create_connection((address, 8080), 60))) as client:
            client.sendall(bytes(AMOUNT))
            thread.join()
        assert len(received) == AMOUNT
        return time.monotonic() - began


@needs_network
def test_the_bandwidth_of_a_pod_is_limited_in_each_direction(lab: Lab, tmp_path: Path) -> None:
    free, slow = lab.add_namespace("free"), lab.add_namespace("slow")

    async def main() -> None:
        network = BridgeNetwork(directory=tmp_path, config=BridgeConfig(bridge="tst0"), clock=VirtualClock())
        network.use_pod_cidrs(["10.77.0.0/24"])
        async with network:
            first = (await network.attach("free", free, ()))[0]
            limits = PodBandwidth(ingress_bits_per_s=LIMIT, egress_bits_per_s=LIMIT)
            second = (await network.attach("slow", slow, (), limits))[0]
            assert measure_sending_time(free, slow, second) > SLOW_S
            assert measure_sending_time(slow, free, first) > SLOW_S
            await network.attach("slow", slow, (), limits)  # a second time changes nothing
            assert measure_sending_time(slow, free, first) > SLOW_S
            shapers = {shaper_of(name) for name in lab.links() if name.startswith("tst0-")}
            assert len(shapers & lab.links()) == 1
            lab.end(slow)  # the link of the pod is deleted with its namespace, its intermediate device is not
            await network.detach("slow")
            assert not shapers & lab.links()
            await network.remove_all()

    lab.run(main)
    lab.namespaces.remove(slow)
