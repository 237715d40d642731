"""The asyncio variant of the official Python client: the package `kubernetes_asyncio`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kubernetes_asyncio import client, config, watch

Work = Callable[[client.CoreV1Api], Awaitable[None]]


@asynccontextmanager
async def connected_client(kubeconfig: Path) -> AsyncIterator[client.CoreV1Api]:
    settings = client.Configuration()
    await config.load_kube_config(str(kubeconfig), client_configuration=settings)
    async with client.ApiClient(settings) as api:
        yield client.CoreV1Api(api)


def run_with_client(kubeconfig: Path, work: Work) -> None:
    async def connect() -> None:
        async with asyncio.timeout(60), connected_client(kubeconfig) as core:
            await work(core)

    asyncio.run(connect())


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"kind-of": "test"}), data=data)


def test_config_map_lifecycle(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(core: client.CoreV1Api) -> None:
        await core.create_namespaced_config_map(sampan_namespace, config_map("settings", color="red"))
        stored = await core.read_namespaced_config_map("settings", sampan_namespace)
        stored.data["size"] = "small"
        replaced = await core.replace_namespaced_config_map("settings", sampan_namespace, stored)
        assert replaced.data == {"color": "red", "size": "small"}
        patched = await core.patch_namespaced_config_map("settings", sampan_namespace, {"data": {"color": None}})
        assert patched.data == {"size": "small"}
        await core.delete_namespaced_config_map("settings", sampan_namespace)
        with pytest.raises(client.ApiException) as refused:
            await core.read_namespaced_config_map("settings", sampan_namespace)
        assert refused.value.status == 404

    run_with_client(sampan_kubeconfig, work)


def test_list_in_pages(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(core: client.CoreV1Api) -> None:
        await asyncio.gather(
            *(core.create_namespaced_config_map(sampan_namespace, config_map(f"map-{n}")) for n in range(5))
        )
        names, token = [], ""
        while True:
            page = await core.list_namespaced_config_map(
                sampan_namespace, label_selector="kind-of=test", limit=2, _continue=token
            )
            names += [item.metadata.name for item in page.items]
            if not (token := page.metadata._continue):
                break
        assert names == [f"map-{n}" for n in range(5)]

    run_with_client(sampan_kubeconfig, work)


def test_watch(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(core: client.CoreV1Api) -> None:
        await core.create_namespaced_config_map(sampan_namespace, config_map("settings", color="red"))
        types = []
        async with watch.Watch() as watcher:
            async for event in watcher.stream(
                core.list_namespaced_config_map, sampan_namespace, field_selector="metadata.name=settings"
            ):
                types.append((event["type"], event["object"].data))
                if event["type"] == "ADDED":
                    await core.patch_namespaced_config_map("settings", sampan_namespace, {"data": {"color": "blue"}})
                elif event["type"] == "MODIFIED":
                    await core.delete_namespaced_config_map("settings", sampan_namespace)
                else:
                    break
        assert types == [("ADDED", {"color": "red"}), ("MODIFIED", {"color": "blue"}), ("DELETED", {"color": "blue"})]

    run_with_client(sampan_kubeconfig, work)


def test_api_errors(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(core: client.CoreV1Api) -> None:
        await core.create_namespaced_config_map(sampan_namespace, config_map("settings"))
        with pytest.raises(client.ApiException) as refused:
            await core.create_namespaced_config_map(sampan_namespace, config_map("settings"))
        assert refused.value.status == 409
        with pytest.raises(client.ApiException) as refused:
            await core.create_namespaced_config_map(sampan_namespace, config_map("Not_Good"))
        assert refused.value.status == 422

    run_with_client(sampan_kubeconfig, work)
