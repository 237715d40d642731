"""Clients that go without a word, and a server that goes while they are there."""

import os
import time
from pathlib import Path

from tests.e2e.exec_logs_port_forward.cluster import LookedInto, looked_into
from tests.e2e.kubectl.command import Kubectl
from tests.eventually import wait_until


def _execs(cluster: LookedInto) -> list[str]:
    """Commands that still run on the node."""
    processes = cluster.do(cluster.node.runtime.monitor.list())
    return [process["id"] for process in processes if process["id"].startswith("exec-") and process["code"] is None]


def _log_watches() -> int:
    """Logs that the kubelet, which is in this process, still follows."""
    return sum("inotify" in _target(name) for name in os.listdir("/proc/self/fd"))


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:  # closed meanwhile
        return ""


def _until_gone(cluster: LookedInto) -> None:
    wait_until(lambda: not _execs(cluster) and not _log_watches(), describe=lambda: (_execs(cluster), _log_watches()))


def test_a_command_ends_with_its_client(cluster: LookedInto, kubectl_of: Kubectl, name: str) -> None:
    cluster.pod(name, "sleep", "1000")
    with kubectl_of.running("exec", name, "--", "sh", "-c", "echo begun; sleep 1000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert _execs(cluster)
    _until_gone(cluster)


def test_following_ends_with_its_client(cluster: LookedInto, kubectl_of: Kubectl, name: str) -> None:
    cluster.pod(name, "sh", "-c", "echo begun; sleep 1000")
    with kubectl_of.running("logs", "-f", name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert _log_watches() == 1
    _until_gone(cluster)


def test_a_server_that_goes_does_not_wait_for_streams(tmp_path: Path, kubectl_of: Kubectl) -> None:
    """Less than the grace that a request is given; on a busy machine one time of several will do."""
    assert any(_end_with_streams_s(tmp_path / str(number), kubectl_of) < 5 for number in range(5))


def _end_with_streams_s(directory: Path, kubectl_of: Kubectl) -> float:
    directory.mkdir()
    with looked_into(directory / "own") as own:
        own.pod("p", "sh", "-c", "echo begun; sleep 1000")
        kubectl = Kubectl(program=kubectl_of._program, kubeconfig=own.kubeconfig(), home=directory)
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
