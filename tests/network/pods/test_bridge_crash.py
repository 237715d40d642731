"""After kill -9 at any moment, the next process completes or undoes each attach and detach that was not finished."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from ipaddress import ip_address
from pathlib import Path

from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.pods import BridgeConfig, BridgeNetwork
from sampan.network.pods.config import is_link_of
from sampan.network.pods.nft import run_nft
from tests.network.pods.lab import NODE_IP, OUTSIDE_IP, Lab, listening, needs_network, observe_source
from tests.network.pods.pod_churn import CIDRS

pytestmark = needs_network

ROUNDS, PODS = 3, 6


def test_pod_networks_are_consistent_after_repeated_kill_9(lab: Lab, repository: Path) -> None:
    before, directory = lab.links(), lab.node.parent / "records"
    namespaces = [lab.add_namespace(f"pod{number}") for number in range(PODS)]
    for seed in range(ROUNDS):
        run_in_network(lab.node, lambda seed=seed: _churn(repository, directory, seed, namespaces))  # type: ignore[misc]
        lab.run(lambda: _check(lab, directory, namespaces))
    lab.run(lambda: _remove_all(directory))
    assert lab.links() == before
    assert not list(directory.iterdir())


def _churn(repository: Path, directory: Path, seed: int, namespaces: list[Path]) -> None:
    argv: list[str | Path] = [sys.executable, "-m", "tests.network.pods.pod_churn", directory, str(seed), *namespaces]
    with subprocess.Popen(argv, cwd=repository, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        time.sleep(random.Random(seed).uniform(0.1, 0.6))  # the moment of the kill is what varies
        assert process.poll() is None
        process.kill()


async def _check(lab: Lab, directory: Path, namespaces: list[Path]) -> None:
    async with _network(directory) as net:
        known = net.list_pod_uids()
        addresses = [address for uid in known for address in net.addresses(uid)]
        assert len(addresses) == len(set(addresses)) == 2 * len(known)
        assert len([name for name in lab.links() if is_link_of("tst0", name)]) <= len(known)
        net.use_pod_cidrs(CIDRS)
        for namespace in namespaces:
            previous_ips = net.addresses(namespace.name)
            ips = await net.attach(namespace.name, namespace, [])
            assert not previous_ips or ips == previous_ips
            with listening(namespace, 80) as server:
                for ip in ips:
                    assert (
                        observe_source(server, lab.node, (ip, 80))
                        == ("10.77.0.1", "fd77::1")[ip_address(ip).version == 6]
                    )
        assert not re.search(rb"\b8000\b", run_nft("list", "ruleset"))
        with listening(lab.outside, 82) as server:
            assert observe_source(server, namespaces[0], (OUTSIDE_IP, 82)) == NODE_IP


async def _remove_all(directory: Path) -> None:
    async with _network(directory) as net:
        await net.remove_all()
    assert run_nft("list", "tables") == b""


def _network(directory: Path) -> BridgeNetwork:
    return BridgeNetwork(directory=directory, config=BridgeConfig(bridge="tst0"), clock=VirtualClock())
