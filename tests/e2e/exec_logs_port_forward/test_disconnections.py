"""Clients that disconnect without notice, and a server that stops while streams are open."""

import os
import time
from pathlib import Path

from tests.e2e.exec_logs_port_forward.cluster import StreamingCluster, streaming_cluster
from tests.e2e.kubectl.command import Kubectl
from tests.eventually import wait_until


def _execs(cluster: StreamingCluster) -> list[str]:
    """Return the ids of the exec commands that still run on the node."""
    processes = cluster.run(cluster.node.runtime.monitor.list())
    return [process["id"] for process in processes if process["id"].startswith("exec-") and process["code"] is None]


def _log_watches() -> int:
    """Return the number of logs that the kubelet, which runs in this process, still follows."""
    return sum("inotify" in _target(name) for name in os.listdir("/proc/self/fd"))


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:  # closed since it was listed
        return ""


def _wait_until_no_streams(cluster: StreamingCluster) -> None:
    wait_until(lambda: not _execs(cluster) and not _log_watches(), describe=lambda: (_execs(cluster), _log_watches()))


def test_exec_command_is_killed_when_the_client_disconnects(
    cluster: StreamingCluster, real_kubectl: Kubectl, name: str
) -> None:
    cluster.pod(name, "sleep", "1000")
    with real_kubectl.running("exec", name, "--", "sh", "-c", "echo begun; sleep 1000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert _execs(cluster)
    _wait_until_no_streams(cluster)


def test_log_following_stops_when_the_client_disconnects(
    cluster: StreamingCluster, real_kubectl: Kubectl, name: str
) -> None:
    cluster.pod(name, "sh", "-c", "echo begun; sleep 1000")
    with real_kubectl.running("logs", "-f", name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert _log_watches() == 1
    _wait_until_no_streams(cluster)


def test_server_shutdown_does_not_wait_for_open_streams(tmp_path: Path, real_kubectl: Kubectl) -> None:
    """The shutdown is faster than the grace period of requests; on a busy machine, one of five attempts suffices."""
    assert any(_shutdown_with_streams_s(tmp_path / str(number), real_kubectl) < 5 for number in range(5))


def _shutdown_with_streams_s(directory: Path, real_kubectl: Kubectl) -> float:
    directory.mkdir()
    with streaming_cluster(directory / "own") as own:
        own.pod("p", "sh", "-c", "echo begun; sleep 1000")
        kubectl = Kubectl(program=real_kubectl._program, kubeconfig=own.kubeconfig(), home=directory)
        with (
            kubectl.running("logs", "-f", "p") as follower,
            kubectl.running("exec", "p", "--", "sh", "-c", "echo begun; sleep 1000") as running,
        ):
            for process in (follower, running):
                assert process.stdout is not None
                assert process.stdout.readline() == "begun\n"
            began = time.monotonic()
            own.stop()
            took_s = time.monotonic() - began
            for process in (follower, running):
                process.wait(60)
        return took_s
