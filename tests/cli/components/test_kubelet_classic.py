"""`sampan kubelet` with flags of early versions: no certificates, static pods from a URL and a directory."""

from pathlib import Path

from sampan.api.types.core_v1 import Node
from sampan.machinery.client import Client
from sampan.testing import Cluster
from tests.cli.command import Sampan
from tests.cli.kubelet import CLASSIC_NODE, running_kubelet, wait_for_mirror_pods
from tests.kubelet.agent.manifest_server import ManifestServer
from tests.kubelet.agent.real_node import manifest


async def check_node(client: Client) -> None:
    node = await client.for_kind(Node).get(CLASSIC_NODE)
    assert node.metadata.labels["zone"] == "a"
    assert ("old", "yes", "NoSchedule") in [(taint.key, taint.value, taint.effect) for taint in node.spec.taints]


def test_a_kubelet_with_flags_of_early_versions_runs_static_pods(sampan: Sampan, tmp_path: Path) -> None:
    site, directory = ManifestServer(), tmp_path / "manifests"
    directory.mkdir()
    site.text = manifest("fetched")
    (directory / "own.json").write_text(manifest("own"))
    with Cluster(components=("apiserver", "controllers"), insecure=True) as cluster:
        url = cluster.run(site.begin())
        words = ["--api-servers", f"{cluster.insecure_url},http://127.0.0.1:1", "--hostname-override", CLASSIC_NODE]
        words += ["--manifest-url", url, "--manifest-url-header", "X-Key:secret", "--http-check-frequency", "200ms"]
        words += ["--pod-manifest-path", str(directory), "--port", "0"]
        words += ["--node-labels", "zone=a", "--register-with-taints", "old=yes:NoSchedule"]
        with running_kubelet(sampan, tmp_path / "root", *words):
            cluster.run(wait_for_mirror_pods(cluster.client, "own", "fetched"), timeout_s=90)
            cluster.run(check_node(cluster.client))
            site.text = manifest("other")
            (directory / "own.json").unlink()
            cluster.run(wait_for_mirror_pods(cluster.client, "other"), timeout_s=90)
            site.text = '{"apiVersion": "v1", "kind": "PodList", "items": []}'
            cluster.run(wait_for_mirror_pods(cluster.client), timeout_s=90)
        cluster.run(site.end())
