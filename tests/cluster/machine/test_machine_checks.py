"""The findings of `sampan doctor` on machines that lack one feature each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sampan.cluster.machine.machine_checks import CheckLevel, check_machine
from sampan.cluster.machine.machine_state import MachineState, read_state
from sampan.runtimes.choice import DetectedRuntimes

COMPLETE = MachineState(
    cgroup_controllers=["cpu", "cpuset", "io", "memory", "pids"],
    file_systems=["ext4", "overlay"],
    link_kinds=["bridge", "veth", "wireguard", "vxlan"],
    oci_programs=["crun (/usr/bin/crun)"],
    runtimes=DetectedRuntimes(usable={"oci": ("/usr/bin/crun", "crun")}),
    user_namespaces=1000,
    nameservers=["192.0.2.53"],
    data_directory=Path("/var/lib"),
    disk_bytes=100 << 30,
    disk_free_bytes=50 << 30,
)


def test_complete_machine_has_no_findings() -> None:
    assert {result.level for result in check_machine(COMPLETE)} == {CheckLevel.OK}


@pytest.mark.parametrize(
    ("name", "level", "changes"),
    [
        ("root", CheckLevel.ERROR, {"uid": 1000, "missing_capabilities": ["CAP_NET_ADMIN"]}),
        ("root", CheckLevel.WARNING, {"rootless_shortcomings": ["no limits"], "forwards": False}),
        ("cgroups", CheckLevel.ERROR, {"cgroup_version": "", "cgroup_controllers": []}),
        ("cgroups", CheckLevel.ERROR, {"cgroup_controllers": ["cpu", "pids"]}),
        ("cgroups", CheckLevel.WARNING, {"cgroup_controllers": ["cpu", "memory", "pids"]}),
        ("oci runtime", CheckLevel.ERROR, {"oci_programs": []}),
        ("oci versions", CheckLevel.WARNING, {"oci_vulnerabilities": {"runc 1.1.5": ["CVE-2025-31133"]}}),
        ("engines", CheckLevel.WARNING, {"runtimes": DetectedRuntimes(errors={"cri": "no socket"})}),
        ("overlayfs", CheckLevel.ERROR, {"file_systems": ["ext4"]}),
        ("nftables", CheckLevel.ERROR, {"nft_error": "nft is not installed"}),
        ("bridge and veth", CheckLevel.ERROR, {"link_kinds": ["veth", "wireguard"]}),
        ("br_netfilter", CheckLevel.WARNING, {"has_bridge_netfilter": False}),
        ("pod addresses", CheckLevel.WARNING, {"frame_error": "nft: Operation not supported"}),
        ("tunnels", CheckLevel.WARNING, {"link_kinds": ["bridge", "veth", "vxlan"]}),
        ("tunnels", CheckLevel.WARNING, {"link_kinds": ["bridge", "veth"]}),
        ("ip_forward", CheckLevel.WARNING, {"forwards": False}),
        ("forward policy", CheckLevel.WARNING, {"dropping_chains": ["inet ufw forward"]}),
        ("user namespaces", CheckLevel.WARNING, {"user_namespaces": 0}),
        ("user namespaces", CheckLevel.WARNING, {"is_userns_restricted": True}),
        ("resolv.conf", CheckLevel.WARNING, {"nameservers": []}),
        ("resolv.conf", CheckLevel.WARNING, {"nameservers": ["127.0.0.53"]}),
        ("disk", CheckLevel.WARNING, {"disk_free_bytes": 1 << 30}),
        ("dns", CheckLevel.WARNING, {"silent_nameservers": ["192.0.2.53"]}),
        ("open files", CheckLevel.WARNING, {"descriptor_limit": 1024}),
        ("leftovers", CheckLevel.WARNING, {"vanished_bridges": ["sp012345"]}),
        ("clock", CheckLevel.WARNING, {"is_clock_synchronized": False}),
    ],
)
def test_missing_feature_gives_one_finding_with_cost_and_remedy(
    name: str, level: CheckLevel, changes: dict[str, Any]
) -> None:
    findings = [result for result in check_machine(replace(COMPLETE, **changes)) if result.level is not CheckLevel.OK]
    assert [(finding.name, finding.level) for finding in findings] == [(name, level)]
    assert findings[0].cost
    assert findings[0].remedy


def test_drop_policy_of_docker_forward_chain_is_no_finding() -> None:
    (result,) = (
        result
        for result in check_machine(replace(COMPLETE, dropping_chains=["ip filter FORWARD"]))
        if result.name == "forward policy"
    )
    assert result.level is CheckLevel.OK


async def test_the_state_of_this_machine_can_be_read(tmp_path: Path) -> None:
    state = await read_state(tmp_path / "not" / "there")
    assert state.disk_bytes > 0
    assert len(check_machine(state)) == 21
