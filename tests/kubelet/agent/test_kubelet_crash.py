"""A kubelet that is killed at any moment: containers keep running, deleted pods leave no mounts, cgroups or files."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Node, Pod
from sampan.machinery.client import Client, DeleteParameters, Selection
from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.eventually import eventually, wait_until
from tests.kubelet.agent.kubelet_process import CGROUP, NODE, KubeletProcess, kubelet_process, needs_oci_runtime

PODS_PER_ROUND = 3
_WAIT_S = 600
"""The limit of each wait, whose failure names the step. A start of the kubelet takes 3 s of CPU time, which a busy
machine does not have within a minute."""
_ROUNDS_S = 3600
pytestmark = [needs_oci_runtime, pytest.mark.timeout(_ROUNDS_S)]


def pod(name: str) -> Pod:
    container = {"name": "c", "image": "sampan.local/host", "command": ["sleep", "1000"]}
    spec = {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": 0}
    return json.from_value({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Pod)


async def wait_for(holds: Callable[[], Awaitable[bool]], step: str) -> None:
    try:
        await eventually(holds, timeout_s=_WAIT_S)
    except TimeoutError:
        raise AssertionError(f"not within {_WAIT_S} s: {step}") from None


async def running_containers(client: Client) -> dict[str, tuple[str, int]]:
    """Return the container ID and the restart count of each running pod."""
    items = (await client.for_kind(Pod).list(Selection(namespace="default"))).items
    containers = {}
    for pod in items:
        statuses = pod.status.containerStatuses
        if pod.metadata.deletionTimestamp is None and statuses and statuses[0].state.running is not None:
            containers[pod.metadata.name] = (statuses[0].containerID, statuses[0].restartCount)
    return containers


async def wait_for_pods(client: Client, names: set[str]) -> dict[str, tuple[str, int]]:
    """Wait until exactly these pods exist, and all of them run."""
    containers: dict[str, tuple[str, int]] = {}

    async def are_running() -> bool:
        items = (await client.for_kind(Pod).list(Selection(namespace="default"))).items
        containers.clear()
        containers.update(await running_containers(client))
        return {item.metadata.name for item in items} == names == set(containers)

    await wait_for(are_running, f"exactly the pods {sorted(names)} exist and run")
    return containers


async def wait_until_registered(client: Client) -> None:
    async def is_registered() -> bool:
        return NODE in [node.metadata.name for node in (await client.for_kind(Node).list()).items]

    await wait_for(is_registered, "the node is registered")


async def run_rounds(cluster: Cluster, kubelet: KubeletProcess, rounds: int) -> None:
    """Kill the kubelet in each round as soon as a random number of pods runs: at once, while others start, or when all
    run."""
    client, dice = cluster.client, random.Random(8)
    alive: set[str] = set()
    known: dict[str, tuple[str, int]] = {}  # the first running container of each pod in `alive`

    async def are_running(number: int) -> bool:
        containers = await running_containers(client)
        known.update({name: containers[name] for name in (alive & containers.keys()) - known.keys()})
        return len(known) >= number

    kubelet.start()
    await wait_until_registered(client)
    for number in range(rounds):
        for name in [f"p{number}-{index}" for index in range(PODS_PER_ROUND)]:
            await client.for_kind(Pod).create(pod(name))
            alive.add(name)
        for name in dice.sample(sorted(alive), min(2, len(alive) - 1)):
            await client.for_kind(Pod).delete(
                name, "default", options=DeleteParameters(grace_period_s=dice.choice((0, 1)))
            )
            alive.discard(name)
            known.pop(name, None)
        count = dice.randint(len(known), len(alive))
        await wait_for(partial(are_running, count), f"{count} of the pods {sorted(alive)} run")
        await asyncio.to_thread(kubelet.kill, signal.SIGKILL)
        kubelet.start()
    containers = await wait_for_pods(client, alive)
    assert {name: containers[name] for name in known} == known
    for name in alive:
        await client.for_kind(Pod).delete(name, "default", options=DeleteParameters(grace_period_s=0))
    await wait_for_pods(client, set())


def leftovers(directory: Path) -> list[str]:
    """Return the mounts, cgroups and directories of pods that exist."""
    tops = [f"{tree.path}{CGROUP}/kubepods" for tree in os.scandir("/sys/fs/cgroup") if tree.is_dir()]
    groups = [place for top in tops for place, _, _ in os.walk(top) if "/pod" in place.removeprefix(top)]
    mounts = [str(path) for path in kernel.mounts_below(directory) if "/host/" not in str(path)]
    places = [directory / "kubelet" / name for name in ("pods", "logs", "runtime/oci/pods")]
    return groups + mounts + [str(path) for place in places if place.exists() for path in place.iterdir()]


def run_kill_rounds(directory: Path, count: int) -> None:
    with Cluster(components=("apiserver", "controllers")) as cluster, kubelet_process(cluster, directory) as kubelet:
        cluster.run(run_rounds(cluster, kubelet, count), timeout_s=_ROUNDS_S)
        wait_until(
            lambda: not leftovers(directory), timeout_s=_WAIT_S, poll_s=0.1, describe=lambda: leftovers(directory)
        )


def test_containers_survive_kills_of_the_kubelet_and_deleted_pods_leave_nothing(tmp_path: Path) -> None:
    run_kill_rounds(tmp_path, 4)


@pytest.mark.soak
def test_containers_survive_twenty_kills_of_the_kubelet(tmp_path: Path) -> None:
    run_kill_rounds(tmp_path, 20)
