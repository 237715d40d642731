"""`sampan kubelet` as it was called in the old days: no certificates, pods from a URL and a folder."""

from pathlib import Path

from sampan.api.types.core_v1 import Node, Pod
from sampan.machinery.client import Client, Selection
from sampan.testing import Cluster
from tests.cli.command import Sampan
from tests.cli.kubelet import running_kubelet
from tests.eventually import eventually
from tests.kubelet.agent.real_node import manifest
from tests.kubelet.agent.test_pod_sources import Site

NODE = "classic"


async def mirrors(client: Client, *names: str) -> None:
    """Wait until the API server has just these mirror pods, and they run."""
    phases = dict.fromkeys((f"{name}-{NODE}" for name in names), "Running")

    async def are_running() -> bool:
        pods = (await client.of(Pod).list(Selection(namespace="default"))).items
        return {pod.metadata.name: pod.status.phase for pod in pods} == phases

    await eventually(are_running, poll_s=0.05)


async def check_node(client: Client) -> None:
    node = await client.of(Node).get(NODE)
    assert node.metadata.labels["zone"] == "a"
    assert ("old", "yes", "NoSchedule") in [(taint.key, taint.value, taint.effect) for taint in node.spec.taints]


def test_a_node_of_old(sampan: Sampan, tmp_path: Path) -> None:
    site, directory = Site(), tmp_path / "manifests"
    directory.mkdir()
    site.text = manifest("fetched")
    (directory / "own.json").write_text(manifest("own"))
    with Cluster(components=("apiserver", "controllers"), insecure=True) as cluster:
        url = cluster.run(site.begin())
        words = ["--api-servers", f"{cluster.insecure_url},http://127.0.0.1:1", "--hostname-override", NODE]
        words += ["--manifest-url", url, "--manifest-url-header", "X-Key:secret", "--http-check-frequency", "200ms"]
        words += ["--pod-manifest-path", str(directory), "--port", "0"]
        words += ["--node-labels", "zone=a", "--register-with-taints", "old=yes:NoSchedule"]
        with running_kubelet(sampan, tmp_path / "root", *words):
            cluster.run(mirrors(cluster.client, "own", "fetched"), timeout_s=90)
            cluster.run(check_node(cluster.client))
            site.text = manifest("other")
            (directory / "own.json").unlink()
            cluster.run(mirrors(cluster.client, "other"), timeout_s=90)
            site.text = '{"apiVersion": "v1", "kind": "PodList", "items": []}'
            cluster.run(mirrors(cluster.client), timeout_s=90)
        cluster.run(site.end())
