"""Pods of a node's own, from a folder, on a real node."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.machinery.client import Client, Delete, Selection
from sampan.testing import Cluster
from tests.eventually import eventually
from tests.kubelet.agent.test_kubelet_crash import NODE, agent

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: own}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: sampan.local/host, command: [sleep, "1000"]}]
"""
NAME = f"own-{NODE}"
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("crun") or shutil.which("runc")), reason="needs root, and crun or runc"
)


async def when(client: Client, uids_before: tuple[str, ...] = ()) -> Pod:
    """Wait for a running mirror pod whose UID is not in `uids_before`, and return it."""
    running: list[Pod] = []

    async def is_running() -> bool:
        pods = (await client.of(Pod).list(Selection(namespace="default"))).items
        running[:] = [pod for pod in pods if pod.metadata.uid not in uids_before and pod.status.phase == "Running"]
        return bool(running)

    await eventually(is_running)
    return running[0]


async def scenario(cluster: Cluster, manifest: Path) -> None:
    client = cluster.client
    first = await when(client)
    assert first.metadata.name == NAME
    assert "kubernetes.io/config.mirror" in first.metadata.annotations
    assert first.metadata.ownerReferences[0].name == NODE
    await client.of(Pod).delete(NAME, "default", options=Delete(grace_period_s=0))
    again = await when(client, (first.metadata.uid,))
    assert again.status.containerStatuses[0].containerID == first.status.containerStatuses[0].containerID
    await asyncio.to_thread(manifest.unlink)

    async def is_gone() -> bool:
        return not (await client.of(Pod).list(Selection(namespace="default"))).items

    await eventually(is_gone)


def test_a_pod_of_a_directory_has_a_mirror_that_comes_back(tmp_path: Path) -> None:
    directory = tmp_path / "manifests"
    directory.mkdir()
    manifest = directory / "own.yaml"
    manifest.write_text(MANIFEST)
    with (
        Cluster(components=("apiserver", "controllers")) as cluster,
        agent(cluster, tmp_path, "--pod-manifest-path", str(directory)) as process,
    ):
        process.start()
        cluster.run(scenario(cluster, manifest), timeout_s=120)
