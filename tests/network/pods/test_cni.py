"""The network for engines with CNI: the conflist, and the standard plugins called with it as an engine does."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from sampan.host.clock import RealClock, VirtualClock
from sampan.network.pods import BridgeConfig, CniNetwork
from sampan.network.pods.cni import PLUGIN_DIRECTORIES, conflist, missing_plugins, parse_result, portmap_removal
from sampan.network.pods.nft import run_nft
from sampan.runtimes.contract import RuntimeFailure
from tests.eventually import eventually
from tests.network.pods.lab import NODE_IP, OUTSIDE_IP, OUTSIDE_IP6, Lab, listening, needs_network, observe_source

CONFIG = BridgeConfig(bridge="tst0")
_DROP = "table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }"


def test_conflist_content() -> None:
    networks = [ip_network("10.77.0.0/24"), ip_network("fd77::/64")]
    config = conflist(CONFIG, networks, Path("/state"), 1400)
    bridge, ports = config["plugins"]
    assert (config["cniVersion"], config["name"]) == ("1.0.0", "sampan-tst0")
    assert bridge["ipam"]["ranges"] == [
        [{"subnet": "10.77.0.0/24", "gateway": "10.77.0.1"}],
        [{"subnet": "fd77::/64", "gateway": "fd77::1"}],
    ]
    assert bridge["ipam"]["routes"] == [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
    assert (bridge["type"], bridge["bridge"], bridge["mtu"], bridge["hairpinMode"]) == ("bridge", "tst0", 1400, True)
    assert (ports["type"], ports["capabilities"]) == ("portmap", {"portMappings": True})


@needs_network
def test_missing_cni_plugins_are_reported(lab: Lab, tmp_path: Path) -> None:
    async def main() -> None:
        network = CniNetwork(
            config=CONFIG,
            state=tmp_path / "state",
            clock=RealClock(),
            directory=tmp_path,
            plugin_directories=[tmp_path],
        )
        with pytest.raises(
            RuntimeFailure, match=r"install containernetworking-plugins|set bin_dir in its configuration"
        ):
            await network.apply(["10.77.0.0/24"])
        assert not network.file.exists()

    lab.run(main)


def test_no_conflist_is_written_beside_that_of_another_network(tmp_path: Path) -> None:
    network = CniNetwork(config=CONFIG, state=tmp_path / "state", clock=RealClock(), directory=tmp_path / "net.d")
    (tmp_path / "net.d").mkdir()
    (tmp_path / "net.d" / "87-other.conflist").write_text("{}")
    asyncio.run(network.apply(["10.77.0.0/24"]))
    assert not network.file.exists()


def test_apply_fails_beside_a_conflist_of_another_existing_node(tmp_path: Path) -> None:
    """An engine serves one node. A conflist whose node no longer exists is removed."""
    network = CniNetwork(
        config=CONFIG,
        state=tmp_path / "node" / "state",
        clock=RealClock(),
        directory=tmp_path,
        plugin_directories=[tmp_path],
    )
    other = tmp_path / "10-sampan-tst1.conflist"
    (tmp_path / "other-node").mkdir()
    other.write_text(json.dumps(conflist(BridgeConfig(bridge="tst1"), [], tmp_path / "other-node" / "state", 1500)))
    with pytest.raises(RuntimeFailure, match="can serve only one"):
        asyncio.run(network.apply(["10.77.0.0/24"]))
    (tmp_path / "other-node").rmdir()
    with pytest.raises(RuntimeFailure, match="plugins"):
        asyncio.run(network.apply(["10.77.0.0/24"]))
    assert not other.exists()


_CHAINS = ["-P PREROUTING ACCEPT", "-N CNI-HOSTPORT-DNAT", "-N CNI-HOSTPORT-MASQ", "-N KUBE-SERVICES"]
_JUMPS = ["-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT", "-A POSTROUTING -j CNI-HOSTPORT-MASQ"]


def test_unused_portmap_chains_are_removed() -> None:
    commands = portmap_removal([*_CHAINS, *_JUMPS, "-A POSTROUTING -j KUBE-SERVICES"])
    assert commands == [
        ["-D", "PREROUTING", "-m", "addrtype", "--dst-type", "LOCAL", "-j", "CNI-HOSTPORT-DNAT"],
        ["-D", "POSTROUTING", "-j", "CNI-HOSTPORT-MASQ"],
        ["-F", "CNI-HOSTPORT-DNAT"],
        ["-F", "CNI-HOSTPORT-MASQ"],
        ["-X", "CNI-HOSTPORT-DNAT"],
        ["-X", "CNI-HOSTPORT-MASQ"],
    ]
    assert portmap_removal([*_CHAINS, *_JUMPS, "-A CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-1"]) == []
    assert portmap_removal([]) == []


@needs_network
@pytest.mark.skipif(bool(missing_plugins()), reason="the standard CNI plugins are not installed")
def test_standard_cni_plugins_connect_a_pod(lab: Lab, tmp_path: Path) -> None:
    pod, before = lab.add_namespace("pod"), lab.links()
    network = CniNetwork(config=CONFIG, state=tmp_path / "state", clock=RealClock(), directory=tmp_path / "net.d")

    async def main() -> None:
        await network.apply(["10.77.0.0/24", "fd77::/64"])
        await network.apply(["10.77.0.0/24", "fd77::/64"])
        assert [file.name for file in network.file.parent.iterdir()] == ["10-sampan-tst0.conflist"]
        result = _call_all(network.file, "ADD", pod)
        assert [entry["address"] for entry in result["ips"]] == ["10.77.0.2/24", "fd77::2/64"]
        with listening(pod, 80) as server:
            assert observe_source(server, lab.node, ("10.77.0.2", 80)) == "10.77.0.1"
            assert observe_source(server, lab.outside, (NODE_IP, 8080)) == OUTSIDE_IP
        with listening(lab.outside, 82) as server:
            assert observe_source(server, pod, (OUTSIDE_IP, 82)) == NODE_IP
            assert observe_source(server, pod, (OUTSIDE_IP6, 82))
        _call_all(network.file, "DEL", pod)
        await network.remove_all()
        assert b"sampan" not in run_nft("list", "ruleset")

    lab.run(main)
    assert lab.links() == before
    assert not list(network.file.parent.iterdir())


@needs_network
@pytest.mark.skipif(bool(missing_plugins()), reason="the standard CNI plugins are not installed")
def test_deleted_rules_and_conflist_are_restored(lab: Lab, tmp_path: Path) -> None:
    """Another program flushes all tables, and adds a chain that drops, as Docker does when it starts."""
    clock = VirtualClock()
    network = CniNetwork(config=CONFIG, state=tmp_path / "state", clock=clock, directory=tmp_path / "net.d")

    async def main() -> None:
        await network.apply(["10.77.0.0/24"])
        run_nft("flush", "ruleset")
        run_nft("-f", "-", text=_DROP)
        network.file.unlink()
        async with asyncio.TaskGroup() as group:
            checks = group.create_task(network.run())
            await clock.advance(60)
            await eventually(network.file.exists)
            checks.cancel()
        rules = run_nft("list", "ruleset").decode()
        assert "table inet sampan-pods-tst0" in rules
        assert rules.count('comment "sampan: pods of tst0"') == 2
        await network.remove_all()
        assert b"sampan" not in run_nft("list", "ruleset")

    lab.run(main)


def _call_all(file: Path, command: str, namespace: Path) -> dict[str, Any]:
    """Call each plugin of the conflist with the result of the previous plugin, as engines do."""
    conflist_content = json.loads(file.read_bytes())
    plugins = conflist_content["plugins"] if command == "ADD" else conflist_content["plugins"][::-1]
    result: dict[str, Any] | None = None
    for plugin in plugins:
        plugin_config = {**plugin, "name": conflist_content["name"], "cniVersion": conflist_content["cniVersion"]}
        if plugin.get("capabilities", {}).get("portMappings"):
            mapping = {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}
            plugin_config["runtimeConfig"] = {"portMappings": [mapping]}
        if result is not None:
            plugin_config["prevResult"] = result
        result = _call(command, namespace, plugin_config) or result
    return result or {}


def _call(command: str, namespace: Path, plugin_config: dict[str, Any]) -> dict[str, Any] | None:
    path = ":".join(map(str, PLUGIN_DIRECTORIES))
    program = next(
        directory / plugin_config["type"]
        for directory in PLUGIN_DIRECTORIES
        if (directory / plugin_config["type"]).exists()
    )
    env = {"CNI_COMMAND": command, "CNI_CONTAINERID": "pod", "CNI_NETNS": str(namespace), "CNI_IFNAME": "eth0"}
    process = subprocess.run(
        [program],
        input=json.dumps(plugin_config).encode(),
        capture_output=True,
        env={**os.environ, **env, "CNI_PATH": path},
        check=False,
        timeout=60,
    )
    assert process.returncode == 0, process.stdout
    return json.loads(process.stdout) if process.stdout else None


RESULT = {
    "kind": "cniCacheV1",
    "ifName": "eth0",
    "networkName": "sampan-tst0",
    "result": {
        "interfaces": [
            {"name": "tst0", "mac": "0a:58:0a:4d:00:01"},
            {"name": "veth1a2b3c4d", "mac": "02:00:00:00:00:01"},
            {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/var/run/netns/cni-1"},
            {"name": "bwpabc", "mac": "02:00:00:00:00:03"},
        ],
        "ips": [{"address": "10.77.0.2/24", "interface": 2}, {"address": "fd77::2/64", "interface": 2}],
    },
}


def test_the_addresses_of_a_pod_are_read_from_the_result_of_the_plugins() -> None:
    assert [(source.link, source.hardware, str(source.ip)) for source in parse_result(RESULT)] == [
        ("veth1a2b3c4d", "02:00:00:00:00:02", ip) for ip in ("10.77.0.2", "fd77::2", "fe80::ff:fe00:2")
    ]


@needs_network
async def test_damaged_results_are_left_out(lab: Lab, tmp_path: Path) -> None:
    for name, text in (("a", json.dumps(RESULT)), ("b", "{"), ("c", "[]"), ("d", '{"result": {"interfaces": [1]}}')):
        (tmp_path / f"sampan-tst0-{name}-eth0").write_text(text)
    (tmp_path / "other-x-eth0").write_text(json.dumps(RESULT))
    network = CniNetwork(
        config=BridgeConfig(bridge="tst0"), state=tmp_path / "state", clock=VirtualClock(), results=tmp_path
    )
    await network.hold()  # another network connects the pods
    assert len(network._read_sources()) == 3
