"""ExternalCluster, with a cluster of this process in place of a remote one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sampan.machinery.client.kubeconfig import KubeconfigError
from sampan.testing import Cluster, ExternalCluster, UnsupportedByCluster
from sampan.testing.builders import config_map


@pytest.fixture(scope="module")
def real() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(real: Cluster) -> Iterator[ExternalCluster]:
    with ExternalCluster(real.kubeconfig) as cluster:
        yield cluster


def test_objects_are_applied_awaited_and_dumped(real: Cluster, cluster: ExternalCluster) -> None:
    with cluster.namespace() as namespace:
        cluster.apply(config_map("map", {"key": "value"}), namespace=namespace)
        assert real.get("cm/map", namespace=namespace)["data"] == {"key": "value"}
        cluster.wait_for("cm/map", lambda value: value["data"]["key"] == "value", namespace=namespace)
        assert "name: map" in cluster.dump(namespace)


def test_kubeconfig_for_a_namespace(cluster: ExternalCluster) -> None:
    path = cluster.kubeconfig_for("mine")
    assert yaml.safe_load(path.read_text())["contexts"][0]["context"]["namespace"] == "mine"
    assert path.stat().st_mode & 0o777 == 0o600


def test_relative_paths_in_a_kubeconfig_stay_valid(real: Cluster, tmp_path: Path) -> None:
    certificate, key = real.client_certificate
    for name, source in (("ca", real.ca), ("certificate", certificate), ("key", key)):
        (tmp_path / name).write_bytes(source.read_bytes())
    config = yaml.safe_load(real.kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": real.url, "certificate-authority": "ca"}
    config["users"][0]["user"] = {"client-certificate": "certificate", "client-key": "key"}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    with (
        ExternalCluster(tmp_path / "config", context="sampan-test") as cluster,
        ExternalCluster(cluster.kubeconfig) as second,
    ):
        assert second.get("namespace/default")["metadata"]["name"] == "default"


def test_fork_injected_fault_node_down_and_advance_are_unsupported(cluster: ExternalCluster) -> None:
    with pytest.raises(UnsupportedByCluster, match="cannot be forked"):
        cluster.fork()
    with pytest.raises(UnsupportedByCluster, match="faults"):
        cluster.fault(error=500)
    with pytest.raises(UnsupportedByCluster, match="node x"):
        cluster.node_down("x")
    with pytest.raises(UnsupportedByCluster, match="real"):
        cluster.advance(minutes=1)


def test_cluster_works_in_the_event_loop_of_the_caller(real: Cluster) -> None:
    async def use() -> str:
        async with ExternalCluster(real.kubeconfig) as cluster:
            return str((await cluster.async_get("namespace/default"))["metadata"]["name"])

    assert asyncio.run(use()) == "default"


def test_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no such file"):
        ExternalCluster(tmp_path / "none")
