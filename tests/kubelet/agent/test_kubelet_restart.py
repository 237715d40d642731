"""Restart counts and last states of containers over restarts of the kubelet."""

from pathlib import Path

from sampan.api.codec import json
from sampan.api.types.core_v1 import ContainerStatus, Pod
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.kubelet.config import KubeletConfig
from sampan.testing import Cluster
from tests.e2e.chaos.interruptible_transport import Line
from tests.eventually import eventually
from tests.kubelet.agent.real_node import NAME, manifest, real_node

SCRIPT = """
n=$(cat {0}/count); echo $((n+1)) > {0}/count
[ $n -lt 2 ] && exit $((n+1))
[ $n = 2 ] && {{ while [ ! -e {0}/go ]; do sleep 0.05; done; exit 3; }}
exec sleep 1000
"""


def status(kubelet: Kubelet) -> ContainerStatus:
    pod = kubelet.find("default", "p")
    return pod.status.containerStatuses[0] if pod is not None and pod.status.containerStatuses else ContainerStatus()


def status_counts(status: ContainerStatus) -> tuple[bool, int, int | None]:
    """Return whether the container runs, its restart count, and the exit code of its last state."""
    ended = status.lastState.terminated
    return status.state.running is not None, status.restartCount, ended.exitCode if ended is not None else None


async def test_restart_count_and_last_state_survive_kubelet_restarts(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    value = json.read_any(manifest("p", "sh", "-c", SCRIPT.format(tmp_path)).encode())
    value["metadata"]["namespace"], value["spec"]["nodeName"] = "default", NAME

    line = Line()
    async with Cluster(components=("apiserver", "controllers")) as cluster:
        line.open(cluster.assembly.transport)
        await cluster.client.for_kind(Pod).create(json.from_value(value, Pod))
        async with real_node(tmp_path, line, ends_pods=False, kubelet=KubeletConfig(longest_pause_s=1.0)) as kubelet:
            await eventually(lambda: status_counts(status(kubelet)) == (True, 2, 2))
            id = status(kubelet).containerID
            await eventually(lambda: (tmp_path / "count").read_text().strip() == "3")
        async with real_node(tmp_path, line, ends_pods=False) as kubelet:
            await eventually(lambda: status(kubelet).containerID == id)
            assert status_counts(status(kubelet)) == (True, 2, 2)
        (tmp_path / "go").touch()
        async with real_node(tmp_path, line) as kubelet:
            await eventually(lambda: status_counts(status(kubelet)) == (True, 3, 3))
            await line.cut()
