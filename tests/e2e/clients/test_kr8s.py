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


def test_from_creation_to_deletion(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        made = await config_map(api, sampan_namespace, "settings", color="red")
        await made.create()
        assert await made.exists()
        found = await ConfigMap.get("settings", namespace=sampan_namespace, api=api)
        assert dict(found.data) == {"color": "red"}
        await found.patch({"data": {"size": "small"}})
        assert dict(found.data) == {"color": "red", "size": "small"}
        await found.patch([{"op": "remove", "path": "/data/color"}], type="json")
        await made.refresh()
        assert dict(made.data) == {"size": "small"}
        await made.delete()
        assert not await made.exists()

    carry_out(sampan_kubeconfig, work)


def test_labels_and_annotations(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        made = await config_map(api, sampan_namespace, "settings")
        await made.create()
        await made.label({"team": "a"})
        await made.annotate({"note": "any text"})
        assert made.labels["team"] == "a"
        assert made.annotations["note"] == "any text"

    carry_out(sampan_kubeconfig, work)


def test_list(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        for number in range(3):
            await (await config_map(api, sampan_namespace, f"map-{number}")).create()
        chosen = {"namespace": sampan_namespace, "label_selector": {"kind-of": "test"}}
        found = [one.name async for one in api.get("configmaps", **chosen)]
        assert sorted(found) == ["map-0", "map-1", "map-2"]

    carry_out(sampan_kubeconfig, work)


def test_watch(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        made = await config_map(api, sampan_namespace, "settings", color="red")
        await made.create()
        seen = []
        chosen = {"namespace": sampan_namespace, "field_selector": {"metadata.name": "settings"}}
        async with aclosing(api.watch("configmaps", **chosen)) as events:
            async for event, one in events:
                seen.append((event, dict(one.data)))
                if event == "ADDED":
                    await made.patch({"data": {"color": "blue"}})
                elif event == "MODIFIED":
                    await made.delete()
                else:
                    break
        assert seen == [("ADDED", {"color": "red"}), ("MODIFIED", {"color": "blue"}), ("DELETED", {"color": "blue"})]

    carry_out(sampan_kubeconfig, work)


def test_pods(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        spec = {"containers": [{"name": "main", "image": "nginx"}]}
        pod = await Pod({"metadata": {"name": "web", "namespace": sampan_namespace}, "spec": spec}, api=api)
        await pod.create()
        assert not await pod.ready()
        await pod.delete()
        assert not await pod.exists()

    carry_out(sampan_kubeconfig, work)


def test_other_groups(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
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


def test_versions_and_resources(sampan_kubeconfig: Path) -> None:
    async def work(api: Any) -> None:
        assert (await api.version())["gitVersion"].startswith("v1.36.")
        assert "pods" in {resource["name"] for resource in await api.api_resources()}

    carry_out(sampan_kubeconfig, work)


def test_refusals(sampan_kubeconfig: Path, sampan_namespace: str) -> None:
    async def work(api: Any) -> None:
        made = await config_map(api, sampan_namespace, "settings")
        await made.create()
        with pytest.raises(kr8s.ServerError, match="already exists"):
            await (await config_map(api, sampan_namespace, "settings")).create()
        with pytest.raises(kr8s.ServerError, match="is invalid"):
            await (await config_map(api, sampan_namespace, "Not_Good")).create()
        with pytest.raises(kr8s.NotFoundError):
            await ConfigMap.get("nobody", namespace=sampan_namespace, api=api, timeout=0)

    carry_out(sampan_kubeconfig, work)
