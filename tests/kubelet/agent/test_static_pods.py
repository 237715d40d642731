"""Static pods of a real node and their mirror pods."""

import asyncio
from pathlib import Path

from sampan.api.semantics.pod_references import is_mirror_pod
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.agent.pod_sources import read_pods
from sampan.kubelet.agent.static_pods import is_mirror_of, mirror_of
from sampan.machinery.client import Client, DeleteParameters, Selection
from sampan.testing import Cluster
from tests.eventually import eventually
from tests.kubelet.agent.kubelet_process import NODE, kubelet_process, needs_oci_runtime

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: own}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: sampan.local/host, command: [sleep, "1000"]}]
"""
NAME = f"own-{NODE}"


def test_a_mirror_pod_belongs_to_the_node_and_to_one_version_of_its_static_pod() -> None:
    (pod,) = read_pods(MANIFEST, "file", NODE, 0)
    mirror = mirror_of(pod, Node(metadata=ObjectMeta(name=NODE, uid="u")))
    assert is_mirror_pod(mirror)
    assert not is_mirror_pod(pod)
    assert is_mirror_of(mirror, pod)
    assert mirror.metadata.uid == ""
    assert mirror.metadata.ownerReferences[0].kind == "Node"
    (other,) = read_pods(MANIFEST.replace("1000", "2000"), "file", NODE, 0)
    assert not is_mirror_of(mirror, other)


async def wait_for_mirror_pod(client: Client, uids_before: tuple[str, ...] = ()) -> Pod:
    """Wait for a running mirror pod whose UID is not in `uids_before`, and return it."""
    running: list[Pod] = []

    async def is_running() -> bool:
        pods = (await client.for_kind(Pod).list(Selection(namespace="default"))).items
        running[:] = [pod for pod in pods if pod.metadata.uid not in uids_before and pod.status.phase == "Running"]
        return bool(running)

    await eventually(is_running)
    return running[0]


async def scenario(cluster: Cluster, manifest: Path) -> None:
    client = cluster.client
    first = await wait_for_mirror_pod(client)
    assert first.metadata.name == NAME
    assert "kubernetes.io/config.mirror" in first.metadata.annotations
    assert first.metadata.ownerReferences[0].name == NODE
    await client.for_kind(Pod).delete(NAME, "default", options=DeleteParameters(grace_period_s=0))
    again = await wait_for_mirror_pod(client, (first.metadata.uid,))
    assert again.status.containerStatuses[0].containerID == first.status.containerStatuses[0].containerID
    await asyncio.to_thread(manifest.unlink)

    async def is_gone() -> bool:
        return not (await client.for_kind(Pod).list(Selection(namespace="default"))).items

    await eventually(is_gone)


@needs_oci_runtime
def test_deleted_mirror_pod_is_recreated_and_removed_with_its_manifest(tmp_path: Path) -> None:
    directory = tmp_path / "manifests"
    directory.mkdir()
    manifest = directory / "own.yaml"
    manifest.write_text(MANIFEST)
    with (
        Cluster(components=("apiserver", "controllers")) as cluster,
        kubelet_process(cluster, tmp_path, "--pod-manifest-path", str(directory)) as process,
    ):
        process.start()
        cluster.run(scenario(cluster, manifest), timeout_s=120)
