"""The package `kr8s`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import kr8s
import kr8s.asyncio
import pytest
from kr8s.asyncio.objects import ConfigMap, Deployment, Pod

from sampan.api.kubernetes_version import GIT_VERSION

pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")


def carry_out(kubeconfig: Path, work: Callable[[Any], Awaitable[None]]) -> None:
    async def connect() -> None:
        api = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
        try:
            async with asyncio.timeout(60):
                await work(api)
        finally:
            if api._session is not None:  # there is no public way to close it
                await api._session.aclose()

    asyncio.run(connect())


async def config_map(api: Any, namespace: str, name: str, **data: str) -> Any:
    manifest = {"metadata": {"name": name, "namespace": namespace, "labels": {"kind-of": "test"}}, "data": data}
    return await ConfigMap(manifest, api=api)


def test_config_map_lifecycle(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        created = await config_map(api, sampan_namespace, "settings", color="red")
        await created.create()
        assert await created.exists()
        stored_config_map = await ConfigMap.get("settings", namespace=sampan_namespace, api=api)
        assert dict(stored_config_map.data) == {"color": "red"}
        await stored_config_map.patch({"data": {"size": "small"}})
        assert dict(stored_config_map.data) == {"color": "red", "size": "small"}
        await stored_config_map.patch([{"op": "remove", "path": "/data/color"}], type="json")
        await created.refresh()
        assert dict(created.data) == {"size": "small"}
        await created.delete()
        assert not await created.exists()

    carry_out(sampan_kubeconfig, work)


def test_labels_and_annotations(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        created = await config_map(api, sampan_namespace, "settings")
        await created.create()
        await created.label({"team": "a"})
        await created.annotate({"note": "any text"})
        assert created.labels["team"] == "a"
        assert created.annotations["note"] == "any text"

    carry_out(sampan_kubeconfig, work)


def test_list(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        for number in range(3):
            await (await config_map(api, sampan_namespace, f"map-{number}")).create()
        chosen = {"namespace": sampan_namespace, "label_selector": {"kind-of": "test"}}
        names = [item.name async for item in api.get("configmaps", **chosen)]
        assert sorted(names) == ["map-0", "map-1", "map-2"]

    carry_out(sampan_kubeconfig, work)


def test_watch(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        created = await config_map(api, sampan_namespace, "settings", color="red")
        await created.create()
        events_seen = []
        chosen = {"namespace": sampan_namespace, "field_selector": {"metadata.name": "settings"}}
        async with aclosing(api.watch("configmaps", **chosen)) as events:
            async for event, obj in events:
                events_seen.append((event, dict(obj.data)))
                if event == "ADDED":
                    await created.patch({"data": {"color": "blue"}})
                elif event == "MODIFIED":
                    await created.delete()
                else:
                    break
        assert events_seen == [
            ("ADDED", {"color": "red"}),
            ("MODIFIED", {"color": "blue"}),
            ("DELETED", {"color": "blue"}),
        ]

    carry_out(sampan_kubeconfig, work)


def test_pod_lifecycle(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        spec = {"containers": [{"name": "main", "image": "nginx"}]}
        pod = await Pod({"metadata": {"name": "web", "namespace": sampan_namespace}, "spec": spec}, api=api)
        await pod.create()
        assert not await pod.ready()
        await pod.delete()
        assert not await pod.exists()

    carry_out(sampan_kubeconfig, work)


def test_deployments(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    manifest = {
        "metadata": {"name": "web", "namespace": sampan_namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }

    async def work(api: Any) -> None:
        deployment = await Deployment(manifest, api=api)
        await deployment.create()
        assert await deployment.exists()

    carry_out(sampan_kubeconfig, work)


def test_version_and_api_resources(sampan_kubeconfig: Path) -> None:
    async def work(api: Any) -> None:
        assert (await api.version())["gitVersion"] == GIT_VERSION
        assert "pods" in {resource["name"] for resource in await api.api_resources()}

    carry_out(sampan_kubeconfig, work)


def test_api_errors(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        created = await config_map(api, sampan_namespace, "settings")
        await created.create()
        with pytest.raises(kr8s.ServerError, match="already exists"):
            await (await config_map(api, sampan_namespace, "settings")).create()
        with pytest.raises(kr8s.ServerError, match="is invalid"):
            await (await config_map(api, sampan_namespace, "Not_Good")).create()
        with pytest.raises(kr8s.NotFoundError):
            await ConfigMap.get("nobody", namespace=sampan_namespace, api=api, timeout=0)

    carry_out(sampan_kubeconfig, work)
