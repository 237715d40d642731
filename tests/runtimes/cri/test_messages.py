"""CRI requests to containerd and CRI-O, and how their responses are read."""

from pathlib import Path

import pytest

from sampan.runtimes import contract
from sampan.runtimes.config import (
    ContainerConfig,
    ContainerResources,
    ContainerSecurity,
    Mount,
    NamespaceOptions,
    PortMapping,
    ResolverConfig,
    SandboxConfig,
)
from sampan.runtimes.contract import ContainerUser
from sampan.runtimes.cri import messages
from sampan.runtimes.cri.client import load
from sampan.runtimes.cri.messages import build_limits_update, container_message, sandbox_message

POD = SandboxConfig(uid="u", namespace="ns", name="p", hostname="boat", log_directory=Path("/logs/p"))


def _container(**fields: object) -> ContainerConfig:
    return ContainerConfig(name="c", image="busybox", log_path=Path("/logs/p/c/2.log"), **fields)  # type: ignore[arg-type]


def test_sandbox_message() -> None:
    config = SandboxConfig(
        uid="u",
        namespace="ns",
        name="p",
        log_directory=Path("/logs/p"),
        dns=ResolverConfig(servers=["10.0.0.10"], searches=["a.test"]),
        ports=[PortMapping(protocol="UDP", container_port=53, host_port=5353)],
        labels={"app": "web"},
        namespaces=NamespaceOptions(network="node", pid="pod"),
        security=ContainerSecurity(user=7),
    )
    message = sandbox_message(config, 3, "node-1")
    assert (message.metadata.uid, message.metadata.attempt, message.log_directory) == ("u", 3, "/logs/p")
    assert list(message.dns_config.servers) == ["10.0.0.10"]
    assert (message.port_mappings[0].protocol, message.port_mappings[0].host_port) == (1, 5353)
    assert message.labels == {
        "app": "web",
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": "u",
        "sampan.dev/node": "node-1",
    }
    options = message.linux.security_context.namespace_options
    assert (options.network, options.pid, options.ipc) == (2, 0, 0)
    assert message.linux.security_context.run_as_user.value == 7


def test_sandbox_message_without_dns_has_no_dns_config() -> None:
    assert not sandbox_message(POD, 0, "n").HasField("dns_config")


def test_container_message() -> None:
    config = _container(
        attempt=2,
        image_ref="sha256:1",
        env=[("A", "1")],
        mounts=[
            Mount(source=Path("/a"), target="/b", is_read_only=True, propagation="rshared"),
            Mount(source=Path("/"), target="/i", image="other:1"),
        ],
        security=ContainerSecurity(added=["CAP_NET_ADMIN"], dropped=["all"], user=0),
        stop_signal="SIGUSR1",
        namespaces=NamespaceOptions(pid="target", target="containerd://abc"),
    )
    message = container_message(config, POD, "node-1")
    assert (message.metadata.attempt, message.log_path) == (2, "c/2.log")
    assert (message.image.image, message.image.user_specified_image) == ("sha256:1", "busybox")
    assert [(mount.host_path, mount.readonly, mount.propagation, mount.image.image) for mount in message.mounts] == [
        ("/a", True, 2, ""),
        ("", False, 0, "other:1"),
    ]
    security = message.linux.security_context
    assert (list(security.capabilities.add_capabilities), list(security.capabilities.drop_capabilities)) == (
        ["NET_ADMIN"],
        ["ALL"],
    )
    assert security.HasField("run_as_user"), "user 0 is a user"
    assert not security.HasField("run_as_group")
    assert (security.namespace_options.pid, security.namespace_options.target_id) == (3, "abc")
    assert message.stop_signal == 29


@pytest.mark.parametrize(("signal", "number"), [("", 0), ("TERM", 23), ("SIGRTMIN+3", 38)])
def test_stop_signals(signal: str, number: int) -> None:
    assert container_message(_container(stop_signal=signal), POD, "n").stop_signal == number


def test_removed_limits_are_sent_explicitly() -> None:
    assert build_limits_update(ContainerResources(cpu_quota=0)).cpu_quota == -1
    assert build_limits_update(ContainerResources(memory_bytes=5)).memory_swap_limit_in_bytes == 5


def test_container_and_sandbox_status_are_parsed() -> None:
    cri = load()
    status = cri.ContainerStatus(
        id="1",
        metadata=cri.ContainerMetadata(name="c", attempt=4),
        state="CONTAINER_EXITED",
        started_at=1_500_000_000,
        finished_at=2_500_000_000,
        exit_code=137,
        image=cri.ImageSpec(image="sha256:1", user_specified_image="busybox"),
        reason="OOMKilled",
        user=cri.ContainerUser(linux=cri.LinuxContainerUser(uid=1, gid=2, supplemental_groups=[2, 3])),
    )
    container = messages.container(status, "s")
    assert container.user == ContainerUser(1, 2, (2, 3))
    assert messages.container(cri.ContainerStatus(id="1"), "s").user is None
    assert (container.state, container.attempt, container.exit_code, container.reason) == (
        contract.EXITED,
        4,
        137,
        contract.OOM_KILLED,
    )
    assert (container.started_at, container.finished_at, container.image, container.sandbox) == (
        1.5,
        2.5,
        "busybox",
        "s",
    )
    both = cri.PodSandboxNetworkStatus(ip="10.0.0.2", additional_ips=[cri.PodIP(ip="fd00::2")])
    assert list(messages.sandbox(cri.PodSandboxStatus(id="s", network=both)).ips) == ["10.0.0.2", "fd00::2"]
    assert not messages.sandbox(cri.PodSandbox(id="s", state="SANDBOX_NOTREADY")).is_ready


def test_user_of_an_image_is_parsed() -> None:
    cri = load()
    assert messages.image(cri.Image(id="i", uid=cri.Int64Value(value=0))).user == "0"
    assert messages.image(cri.Image(id="i", username="app")).user == "app"
    assert messages.image(cri.Image(id="i")).user == ""
