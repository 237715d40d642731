"""Test clusters: access, namespaces, stores and clocks, and their shutdown."""

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from sampan.api.types.core_v1 import ConfigMap, Event, Namespace, Node, Pod, ServiceAccount
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import ADDED, Selection
from sampan.storage.sqlite.schema import FormatError
from sampan.testing import Cluster
from sampan.testing.builders import config_map, pod
from tests.eventually import wait_until
from tests.input_cost import is_cpu_time_within
from tests.storage.etcd_server import find, running_member

_CERTIFICATES = re.compile(r"(?:certificate-authority|client-certificate|client-key)-data: .*")


def is_listening(url: str) -> bool:
    host, _, port = url.rpartition("//")[2].partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def fetch(url: str, cluster: Cluster) -> str:
    """Fetch a URL with the cluster's CA and the client certificate of the administrator."""
    context = ssl.create_default_context(cafile=cluster.ca)
    context.load_cert_chain(*cluster.client_certificate)
    with urllib.request.urlopen(url, context=context, timeout=60) as response:
        text: str = response.read().decode()
    return text


def test_pod_can_be_created_right_after_start() -> None:
    with Cluster() as cluster:
        created = cluster.run(cluster.client.for_kind(Pod).create(pod("first"), "default"))
    assert created.spec.serviceAccountName == "default"


def test_clusters_of_a_process_have_the_same_keys(sampan_cluster: Cluster) -> None:
    """Keys are generated once per process, because that takes most of the start of a cluster."""
    with Cluster() as second:
        certificates, others = (set(_CERTIFICATES.findall(c.kubeconfig.read_text())) for c in (sampan_cluster, second))
        assert len(certificates) == 3
        assert certificates == others
        assert fetch(f"{second.url}/readyz", second) == "ok"
        assert second.url != sampan_cluster.url


def test_api_is_served_over_https(sampan_cluster: Cluster) -> None:
    assert fetch(f"{sampan_cluster.url}/readyz", sampan_cluster) == "ok"
    assert '"kind":"NamespaceList"' in fetch(f"{sampan_cluster.url}/api/v1/namespaces", sampan_cluster)


def test_plain_http_requires_insecure(sampan_cluster: Cluster) -> None:
    with (
        Cluster(level="api", insecure=True) as cluster,
        urllib.request.urlopen(f"{cluster.insecure_url}/api/v1/pods", timeout=60) as response,
    ):
        assert response.status == 200
    with pytest.raises(RuntimeError, match="insecure=True"):
        _ = sampan_cluster.insecure_url


def test_anonymous_request_for_secrets_gets_403(sampan_cluster: Cluster) -> None:
    context = ssl.create_default_context(cafile=sampan_cluster.ca)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{sampan_cluster.url}/api/v1/secrets", context=context, timeout=60)
    with refused.value as error:
        assert error.code == 403


def test_two_clusters_share_nothing_but_the_ca(sampan_cluster: Cluster) -> None:
    with Cluster() as other:
        other.run(other.client.for_kind(ConfigMap).create(config_map("only-there"), "default"))
        with pytest.raises(errors.NotFound):
            sampan_cluster.run(sampan_cluster.client.for_kind(ConfigMap).get("only-there", "default"))
        assert sampan_cluster.url != other.url
        assert sampan_cluster.ca.read_bytes() == other.ca.read_bytes()


def test_cluster_can_be_used_from_several_threads(sampan_cluster: Cluster) -> None:
    with sampan_cluster.namespace() as namespace, ThreadPoolExecutor(8) as threads:

        def make(number: int) -> str:
            maps = sampan_cluster.client.for_kind(ConfigMap)
            created = sampan_cluster.run(maps.create(config_map(f"map-{number}"), namespace))
            return str(created.metadata.name)

        assert sorted(threads.map(make, range(40))) == sorted(f"map-{number}" for number in range(40))


def test_clusters_can_be_started_in_several_threads() -> None:
    def use(_: int) -> str:
        with Cluster() as cluster:
            return fetch(f"{cluster.url}/readyz", cluster)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(use, range(4))) == ["ok"] * 4


class TestShutdown:
    def test_no_port_directory_or_thread_is_left(self) -> None:
        threads = set(threading.enumerate())
        with Cluster() as cluster:
            url, directory = cluster.url, cluster.kubeconfig.parent
            assert is_listening(url)
            assert directory.is_dir()
        assert not is_listening(url)
        assert not directory.exists()
        assert set(threading.enumerate()) <= threads  # a thread of an earlier test may have ended meanwhile
        with pytest.raises(RuntimeError, match="not running"):
            _ = cluster.url

    def test_no_port_or_directory_is_left_after_an_exception(self) -> None:
        with pytest.raises(KeyError, match="oops"), Cluster() as cluster:  # noqa: PT012 - url is needed
            url, directory = cluster.url, cluster.kubeconfig.parent
            raise KeyError("oops")
        assert not is_listening(url)
        assert not directory.exists()

    def test_no_directory_is_left_after_a_failed_start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        file = tmp_path / "state.db"
        file.write_bytes(b"no database" * 1000)
        with pytest.raises(FormatError, match="is not a Sampan store"), Cluster(store=file):
            pass
        assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("state.db")] == []

    def test_open_watch_does_not_delay_shutdown(self) -> None:
        """Requests get five seconds to finish. On a busy machine one quick shutdown of several is enough."""
        assert any(self._shutdown_with_a_watch_s() < 3 for _ in range(5))

    def _shutdown_with_a_watch_s(self) -> float:
        with Cluster(level="api", insecure=True) as cluster:
            watch = urllib.request.urlopen(f"{cluster.insecure_url}/api/v1/namespaces?watch=true", timeout=60)
            assert watch.readline()
            began = time.monotonic()
        took_s = time.monotonic() - began
        watch.close()
        return took_s

    def test_no_port_or_directory_is_left_after_sigkill(self, tmp_path: Path) -> None:
        code = (
            "from sampan.testing import Cluster\n"
            "with Cluster(level='api') as cluster:\n"
            "    print(cluster.kubeconfig, cluster.url, flush=True)\n"
            "    input()\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        ) as process:
            assert process.stdout is not None
            kubeconfig, url = process.stdout.readline().split()
            assert Path(kubeconfig).is_relative_to(tmp_path)
            assert is_listening(url)
            process.send_signal(signal.SIGKILL)
        wait_until(lambda: list(tmp_path.iterdir()) == [])
        assert not is_listening(url)

    def test_a_cluster_is_entered_once(self) -> None:
        with Cluster(level="api") as cluster:
            pass
        with pytest.raises(RuntimeError, match="once"), cluster:
            pass


class TestCallerEventLoop:
    def test_coroutines_are_awaited(self) -> None:
        async def use() -> str:
            async with Cluster() as cluster, cluster.async_namespace() as namespace:
                await cluster.client.for_kind(Pod).create(pod("first"), namespace)
                return (await cluster.client.for_kind(Pod).get("first", namespace)).metadata.name

        assert asyncio.run(use()) == "first"

    def test_run_is_rejected_in_the_event_loop_of_the_caller(self) -> None:
        async def use() -> None:
            async with Cluster(level="api") as cluster:
                cluster.run(cluster.client.for_kind(Pod).get("any", "default"))

        with pytest.raises(RuntimeError, match="await it instead"):
            asyncio.run(use())

    def test_no_port_or_directory_is_left(self) -> None:
        async def use() -> tuple[str, Path]:
            async with Cluster() as cluster:
                return cluster.url, cluster.kubeconfig

        url, kubeconfig = asyncio.run(use())
        assert not is_listening(url)
        assert not kubeconfig.parent.exists()


def test_run_from_the_clusters_own_loop_is_refused(sampan_cluster: Cluster) -> None:
    async def call() -> None:
        sampan_cluster.run(sampan_cluster.client.for_kind(Pod).get("any", "default"))

    with pytest.raises(RuntimeError, match="own thread"):
        sampan_cluster.run(call())


class TestNamespaces:
    def test_namespaces_are_unique_and_ready_for_pods(self, sampan_cluster: Cluster) -> None:
        client = sampan_cluster.client
        with sampan_cluster.namespace("mine") as first, sampan_cluster.namespace("mine") as other:
            assert first != other
            assert first.startswith("mine-")
            for name in (first, other):
                sampan_cluster.run(client.for_kind(Pod).create(pod("same"), name))

    def test_namespace_is_deleted_after_its_block(self, sampan_cluster: Cluster) -> None:
        client = sampan_cluster.client
        with sampan_cluster.namespace() as name:
            sampan_cluster.run(client.for_kind(ConfigMap).create(config_map("inside"), name))

        sampan_cluster.wait_for(f"namespace/{name}", "delete")
        with pytest.raises(errors.NotFound):
            sampan_cluster.run(client.for_kind(Namespace).get(name))

    def test_namespace_takes_at_most_50_ms_of_cpu_time(self, sampan_cluster: Cluster) -> None:
        """The objects of the previous namespace are being deleted at the same time."""
        took_s = []
        for _ in range(11):
            began = time.process_time()
            with sampan_cluster.namespace() as name:
                took_s.append(time.process_time() - began)
                sampan_cluster.run(sampan_cluster.client.for_kind(ConfigMap).create(config_map("left"), name))
        assert is_cpu_time_within(sorted(took_s)[5], 0.05)

    def test_kubeconfig_selects_the_namespace(self, sampan_cluster: Cluster) -> None:
        with sampan_cluster.namespace() as name:
            path = sampan_cluster.kubeconfig_for(name)
            assert yaml.safe_load(path.read_text())["contexts"][0]["context"]["namespace"] == name
            assert path.stat().st_mode & 0o777 == 0o600

    def test_service_accounts_are_not_awaited_without_controllers(self) -> None:
        with Cluster(controllers=()) as cluster, cluster.namespace() as name:
            accounts = cluster.run(cluster.client.for_kind(ServiceAccount).list(Selection(namespace=name)))
        assert accounts.items == []


def test_runtime_config_enables_an_alpha_api_version(sampan_cluster: Cluster) -> None:
    path = "/apis/coordination.k8s.io/v1alpha2"
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(sampan_cluster.url + path, sampan_cluster)
    refused.value.close()
    assert refused.value.code == 404
    with Cluster(level="api", runtime_config={"coordination.k8s.io/v1alpha2": True}) as cluster:
        assert "leasecandidates" in fetch(cluster.url + path, cluster)


class TestStores:
    def test_objects_persist_in_a_store_file(self, tmp_path: Path) -> None:
        file = tmp_path / "state.db"
        with Cluster(level="api", store=file) as cluster:
            cluster.run(cluster.client.for_kind(ConfigMap).create(config_map("kept", {"a": "b"}), "default"))
        with Cluster(level="api", store=str(file)) as cluster:
            kept = cluster.run(cluster.client.for_kind(ConfigMap).get("kept", "default"))
        assert kept.data == {"a": "b"}

    def test_sqlite_store_without_a_path_is_deleted(self) -> None:
        with Cluster(level="api", store="sqlite") as cluster:
            directory = cluster.kubeconfig.parent
            cluster.run(cluster.client.for_kind(ConfigMap).create(config_map("kept"), "default"))
            assert (directory / "state.db").exists()
        assert not directory.exists()

    @pytest.mark.skipif(find("etcd") is None, reason="etcd is not installed")
    def test_two_clusters_on_one_etcd_see_the_same_objects(self, tmp_path: Path) -> None:
        with running_member(tmp_path) as member:
            store = member.client_url
            with Cluster(level="api", store=store) as first, Cluster(level="api", store=store) as other:

                async def watch_for_the_map() -> str:
                    chosen = Selection(namespace="default", fields="metadata.name=seen")
                    async with other.client.for_kind(ConfigMap).watch(chosen, initial_events=True) as events:
                        async for batch in events:
                            for event in batch:
                                if event.type == ADDED:
                                    return str(event.object.metadata.name)
                    return ""

                with ThreadPoolExecutor(1) as threads:
                    observation = threads.submit(other.run, watch_for_the_map())
                    first.run(first.client.for_kind(ConfigMap).create(config_map("seen"), "default"))
                    assert observation.result() == "seen"


def test_events_expire_when_the_virtual_clock_is_advanced() -> None:
    clock = VirtualClock()
    with Cluster(level="api", clock=clock) as cluster:
        client = cluster.client
        happened = Event(reason="Test")
        happened.metadata.name = "old"
        happened.involvedObject.namespace = "default"
        cluster.run(client.for_kind(Event).create(happened, "default"))
        cluster.run(clock.advance(3500))
        cluster.run(client.for_kind(Event).get("old", "default"))
        cluster.run(clock.advance(200))
        with pytest.raises(errors.NotFound):
            cluster.run(client.for_kind(Event).get("old", "default"))


def test_advance_waits_for_controllers() -> None:
    """Work that a step triggers is finished before time advances further: the namespace is gone afterwards."""
    clock = VirtualClock()
    with Cluster(clock=clock) as cluster:
        with cluster.namespace() as name:
            cluster.run(cluster.client.for_kind(ConfigMap).create(config_map("inside"), name))
        cluster.run(clock.advance(60))
        with pytest.raises(errors.NotFound):
            cluster.run(cluster.client.for_kind(Namespace).get(name))


def test_hollow_nodes_are_ready_and_run_pods() -> None:
    clock = VirtualClock()
    with Cluster(nodes=3, clock=clock) as cluster:
        page = cluster.run(cluster.client.for_kind(Node).list())
        assert [node.metadata.name for node in page.items] == ["node-0", "node-1", "node-2"]
        assert {node.status.conditions[-1].reason for node in page.items} == {"KubeletReady"}
        pods = cluster.client.for_kind(Pod)
        cluster.run(pods.create(pod("web", node="node-1", namespace="default")))
        cluster.run(clock.advance(1))
        assert cluster.run(pods.get("web", "default")).status.phase == "Running"
