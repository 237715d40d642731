"""Requests to the Docker Engine, and how its responses are read."""

from pathlib import Path
from typing import Any

import pytest

from sampan.runtimes import contract
from sampan.runtimes.config import (
    ContainerConfig,
    ContainerResources,
    ContainerSecurity,
    NamespaceOptions,
    PortMapping,
    SandboxConfig,
    SecurityProfile,
)
from sampan.runtimes.contract import ContainerUser, RuntimeFailure
from sampan.runtimes.docker import messages

POD = SandboxConfig(
    uid="u",
    namespace="ns",
    name="p",
    hostname="boat",
    log_directory=Path("/logs"),
    ports=[PortMapping(container_port=80, host_port=8080)],
)


def _container(**fields: Any) -> ContainerConfig:
    return ContainerConfig(name="c", image="busybox", log_path=Path("/logs/c/0.log"), **fields)


def _host(**fields: Any) -> dict[str, Any]:
    host_config: dict[str, Any] = messages.container_body(_container(**fields), POD, "n", pause="PAUSE")["HostConfig"]
    return host_config


@pytest.mark.parametrize(
    ("network", "mode", "ports"), [("bridge", "bridge", {"80/tcp"}), ("none", "none", set()), ("host", "host", set())]
)
def test_body_of_the_pause_container(network: str, mode: str, ports: set[str]) -> None:
    config = POD
    if network == "host":
        config = SandboxConfig(
            uid="u", namespace="ns", name="p", log_directory=Path("/l"), namespaces=NamespaceOptions(network="node")
        )
    body = messages.sandbox_body(config, 2, "n", image="pause", network="bridge" if network == "host" else network)
    assert body["HostConfig"]["NetworkMode"] == mode
    assert set(body["HostConfig"]["PortBindings"]) == set(body["ExposedPorts"]) == ports
    assert body["Labels"]["sampan.dev/attempt"] == "2"


def test_container_joins_the_namespaces_of_the_pause_container() -> None:
    host = _host()
    assert (host["NetworkMode"], host["IpcMode"], host["PidMode"]) == ("container:PAUSE", "container:PAUSE", "")
    assert _host(namespaces=NamespaceOptions(pid="pod"))["PidMode"] == "container:PAUSE"
    assert _host(namespaces=NamespaceOptions(pid="target", target="docker://x"))["PidMode"] == "container:x"


@pytest.mark.parametrize(
    ("security", "user"),
    [
        (ContainerSecurity(), ""),
        (ContainerSecurity(user=0), "0"),
        (ContainerSecurity(user=1, group=2), "1:2"),
        (ContainerSecurity(group=2), "0:2"),
        (ContainerSecurity(username="app"), "app"),
    ],
)
def test_user_in_the_body_of_a_container(security: ContainerSecurity, user: str) -> None:
    body = messages.container_body(_container(security=security), POD, "n", pause="x")
    assert body["User"] == user


def test_seccomp_and_apparmor_profiles() -> None:
    assert set(_host()["SecurityOpt"]) == {"seccomp=unconfined", "apparmor=unconfined"}
    default = ContainerSecurity(
        seccomp=SecurityProfile(),
        apparmor=SecurityProfile(type="Localhost", local="mine"),
        may_not_gain_privileges=True,
    )
    assert set(_host(security=default)["SecurityOpt"]) == {"no-new-privileges", "apparmor=mine"}


def test_removed_limits_are_sent_explicitly() -> None:
    assert messages.build_limits_update(ContainerResources())["CpuQuota"] == -1
    assert messages.build_limits_update(ContainerResources(cpu_quota=5))["CpuQuota"] == 5
    assert "Memory" not in messages.limits(ContainerResources())


def test_container_state_is_parsed() -> None:
    inspected = {
        "Id": "1",
        "Created": "2026-01-02T03:04:05.5Z",
        "Image": "sha256:1",
        "State": {
            "Status": "exited",
            "ExitCode": 137,
            "OOMKilled": True,
            "StartedAt": "2026-01-02T03:04:06Z",
            "FinishedAt": "0001-01-01T00:00:00Z",
        },
        "Config": {"Labels": {"io.kubernetes.container.name": "c", "sampan.dev/attempt": "3"}},
    }
    container = messages.container(inspected)
    assert (container.name, container.attempt, container.state, container.reason) == (
        "c",
        3,
        contract.EXITED,
        contract.OOM_KILLED,
    )
    assert (container.created_at % 60, container.finished_at) == (5.5, 0)


@pytest.mark.parametrize(
    ("user", "known"),
    [("7:8", ContainerUser(7, 8, (8, 9))), ("7", None), ("", None), ("someone:8", None)],
)
def test_container_user_is_parsed(user: str, known: ContainerUser | None) -> None:
    inspected = {
        "Id": "1",
        "State": {"Status": "running"},
        "Config": {"User": user},
        "HostConfig": {"GroupAdd": ["9", "8"]},
    }
    assert messages.container(inspected).user == known


def test_usage_is_parsed_from_stats() -> None:
    stats = {
        "cpu_stats": {"cpu_usage": {"total_usage": 2_000_000_000}},
        "memory_stats": {"usage": 100, "stats": {"total_inactive_file": 30, "total_rss": 50}},
        "pids_stats": {"current": 4},
    }
    usage = messages.usage("c", stats, 0.5)
    assert (usage.cpu_s, usage.memory_bytes, usage.memory_rss_bytes, usage.processes) == (2.0, 70, 50, 4)


def test_layers_come_from_the_overlay2_driver() -> None:
    data = {"UpperDir": "/o/3/diff", "LowerDir": "/o/2/diff:/o/1/diff"}
    assert _layers("overlay2", data) == [Path("/o/1/diff"), Path("/o/2/diff"), Path("/o/3/diff")]
    assert _layers("overlay2", {"UpperDir": "/o/1/diff"}) == [Path("/o/1/diff")]
    with pytest.raises(RuntimeFailure, match="the storage driver overlay2"):
        _layers("btrfs", {})


def _layers(driver: str, data: dict[str, str]) -> Any:
    return messages.layers({"GraphDriver": {"Name": driver, "Data": data}})
