"""Container configurations against a real API server, with the permissions of a node."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import ConfigMap, Pod, Secret, Service
from sampan.apiserver.request.call import UserInfo
from sampan.kubelet.container_config.builder import ContainerConfigBuilder, ContainerInputs, NodeSettings
from sampan.kubelet.objects import ObjectKey, PodObjects
from sampan.machinery.client import Client
from sampan.machinery.informer import InformerFactory
from sampan.machinery.loopback_services import LoopbackServices
from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from sampan.testing import Cluster
from tests.kubelet.node_api_server import node_api_server

IMAGE = ImageInfo(id="sha256:x")


@asynccontextmanager
async def node_informers(cluster: Cluster) -> AsyncIterator[InformerFactory]:
    """Yield informers with the permissions of the kubelet of node n."""
    user = UserInfo("system:node:n", groups=("system:nodes", "system:authenticated"))
    transport = cluster.assembly.transport.as_user(user)
    async with InformerFactory(client=Client(transport=transport, clock=cluster.clock, component="kubelet")) as factory:
        services = factory.for_kind(Service)
        await services.synced.wait()
        yield factory


def pod_with_container(**container: Any) -> Pod:
    spec = {
        "nodeName": "n",
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "i", **container}],
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["friend"]}],
    }
    return json.from_value({"metadata": {"name": "p", "namespace": "default"}, "spec": spec}, Pod)


async def test_container_config_has_env_command_log_path_and_hosts_file(tmp_path: Path) -> None:
    async with asyncio.timeout(60), node_api_server() as cluster, node_informers(cluster) as informers:
        client = cluster.client
        secret = {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"password": "open"}}
        await client.for_kind(Secret).create(json.from_value(secret, Secret))
        env = [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}]
        pod = await client.for_kind(Pod).create(
            pod_with_container(env=env, command=["run", "$(PASSWORD)"], args=["$$(x)"], tty=True, stdin=True)
        )
        changes: list[ObjectKey] = []
        objects = PodObjects(informers=informers, on_change=changes.append)
        objects.follow(pod)
        config = NodeSettings(root=tmp_path / "root", logs=tmp_path / "logs", node_name="n", host_ips=["10.0.0.1"])
        builder = ContainerConfigBuilder(config=config, objects=objects, services=informers.for_kind(Service).lister)
        container = (pod.spec.containers or [])[0]
        built = await builder.container(pod, container, 2, ContainerInputs(image=IMAGE, pod_ips=["10.1.0.2"]))
        assert built.command == ["run", "open"]
        assert built.args == ["$(x)"]
        assert dict(built.env)["KUBERNETES_SERVICE_PORT"] == "443"
        assert built.log_path == tmp_path / f"logs/default_p_{pod.metadata.uid}/c/2.log"
        assert (built.has_tty, built.has_stdin, built.attempt) == (True, True, 2)
        hosts = next(mount for mount in built.mounts if mount.target == "/etc/hosts")
        assert "10.1.0.2\tp\n" in hosts.source.read_text()
        assert "1.2.3.4\tfriend\n" in hosts.source.read_text()
        os.truncate(hosts.source, 1 << 40)  # a container can do this, and the whole file would be read
        await builder.container(pod, container, 3, ContainerInputs(image=IMAGE, pod_ips=["10.1.0.2"]))
        assert hosts.source.stat().st_size < 1000
        sandbox = await builder.sandbox(pod, 0)
        assert (sandbox.hostname, sandbox.labels["io.kubernetes.pod.uid"]) == ("p", pod.metadata.uid)
        pull_secret = await objects.secret("default", "s")
        assert pull_secret is not None
        assert changes
        objects.forget(pod.metadata.uid)
        assert objects.users(ObjectKey(Secret, "default", "s")) == set()


async def test_host_network_pod_gets_the_addresses_of_the_node(tmp_path: Path) -> None:
    async with asyncio.timeout(60), node_api_server() as cluster, node_informers(cluster) as informers:
        fields = {"IP": "status.podIP", "IPS": "status.podIPs", "HOST": "status.hostIP"}
        env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
        pod = pod_with_container(env=env)
        pod.spec.hostNetwork = True
        objects = PodObjects(informers=informers, on_change=lambda key: None)
        config = NodeSettings(
            root=tmp_path / "root", logs=tmp_path / "logs", node_name="n", host_ips=["10.0.0.1", "fd::1"]
        )
        builder = ContainerConfigBuilder(config=config, objects=objects, services=informers.for_kind(Service).lister)
        built = await builder.container(pod, (pod.spec.containers or [])[0], 0, ContainerInputs(image=IMAGE))
        variables = dict(built.env)
        assert [variables[name] for name in fields] == ["10.0.0.1", "10.0.0.1,fd::1", "10.0.0.1"]


async def test_service_variables_use_loopback_addresses_with_the_userspace_proxy(tmp_path: Path) -> None:
    async with asyncio.timeout(60), node_api_server() as cluster, node_informers(cluster) as informers:
        objects = PodObjects(informers=informers, on_change=lambda key: None)
        config = NodeSettings(
            root=tmp_path / "root", logs=tmp_path / "logs", node_name="n", loopback_services=LoopbackServices(shift=1)
        )
        builder = ContainerConfigBuilder(config=config, objects=objects, services=informers.for_kind(Service).lister)
        pod = pod_with_container()
        built = await builder.container(pod, (pod.spec.containers or [])[0], 0, ContainerInputs(image=IMAGE))
        variables = dict(built.env)
        assert variables["KUBERNETES_SERVICE_HOST"].startswith("127.")
        assert variables["KUBERNETES_SERVICE_PORT"] == "10443"
        assert variables["KUBERNETES_PORT_10443_TCP_ADDR"] == variables["KUBERNETES_SERVICE_HOST"]


async def test_user_namespaces_are_rejected_without_runtime_support(tmp_path: Path) -> None:
    async with asyncio.timeout(60), node_api_server() as cluster, node_informers(cluster) as informers:
        pod = pod_with_container()
        pod.spec.hostUsers = False
        objects = PodObjects(informers=informers, on_change=lambda key: None)
        config = NodeSettings(root=tmp_path / "root", logs=tmp_path / "logs", node_name="n")
        builder = ContainerConfigBuilder(config=config, objects=objects, services=informers.for_kind(Service).lister)
        with pytest.raises(RuntimeFailure, match="runtime does not support user namespaces"):
            await builder.sandbox(pod, 0)


async def test_missing_config_map_fails_until_created(tmp_path: Path) -> None:
    async with asyncio.timeout(60), node_api_server() as cluster, node_informers(cluster) as informers:
        pod = await cluster.client.for_kind(Pod).create(
            pod_with_container(envFrom=[{"configMapRef": {"name": "later"}}])
        )
        changed = asyncio.Event()
        objects = PodObjects(informers=informers, on_change=lambda key: changed.set())
        objects.follow(pod)
        config = NodeSettings(root=tmp_path / "root", logs=tmp_path / "logs", node_name="n")
        builder = ContainerConfigBuilder(config=config, objects=objects, services=informers.for_kind(Service).lister)
        container = (pod.spec.containers or [])[0]
        with pytest.raises(RuntimeFailure) as failure:
            await builder.container(pod, container, 0, ContainerInputs(image=IMAGE))
        assert (failure.value.reason, failure.value.message) == (
            "CreateContainerConfigError",
            'configmap "later" not found',
        )
        config_map = {"metadata": {"name": "later", "namespace": "default"}, "data": {"A": "1"}}
        await cluster.client.for_kind(ConfigMap).create(json.from_value(config_map, ConfigMap))
        await changed.wait()
        assert dict((await builder.container(pod, container, 0, ContainerInputs(image=IMAGE))).env)["A"] == "1"
