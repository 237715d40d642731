"""The steps of a pod, in their order, as the flight recorder has them."""

import asyncio
from pathlib import Path
from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Event, Pod, Secret
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.testing import Cluster
from tests.e2e.chaos.line import Line
from tests.kubelet.agent.real_node import NAME, manifest, phase, real_node, until

BEFORE = ["check permissions", "make groups", "make data directory", "mount volumes"]
OWN = f"own-{NAME}"


def steps(kubelet: Kubelet, name: str) -> list[tuple[str, str]]:
    assert kubelet.recorder is not None
    return [(found.action, found.outcome) for found in kubelet.recorder.about(subject=f"pods/default/{name}")]


def actions(kubelet: Kubelet, name: str) -> list[str]:
    """What was done again for the next container is left out."""
    return list(dict.fromkeys(action for action, _ in steps(kubelet, name)))


def pod(name: str, **spec: Any) -> Pod:
    value = json.read_any(manifest(name, **spec).encode())
    value["metadata"]["namespace"], value["spec"]["nodeName"] = "default", NAME
    value["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["true"]}}}
    return json.from_value(value, Pod)


async def scenario(cluster: Cluster, kubelet: Kubelet) -> None:
    client = cluster.client
    await client.of(Secret).create(Secret(metadata=ObjectMeta(name="key", namespace="default")))
    first = {"name": "first", "image": "sampan.local/host", "command": ["true"]}
    secrets = [{"name": "key"}, {"name": "none"}]
    await client.of(Pod).create(pod("web", initContainers=[first], imagePullSecrets=secrets))
    await until(lambda: "post-start hook" in actions(kubelet, "web"))
    container = ["pull", "configure", "create", "start"]
    assert actions(kubelet, "web") == [
        *BEFORE,
        "read image pull secrets",
        "run sandbox",
        *container,
        "post-start hook",
    ]
    found = steps(kubelet, "web")
    assert ("check permissions", "host networking") in found
    assert ("read image pull secrets", "key") in found
    order = [(action, outcome.split()[0]) for action, outcome in found if action in container]
    assert order == [(step, name) for name in ("first", "c") for step in container]
    reason, told = "FailedToRetrieveImagePullSecret", dict[str, str]()
    while reason not in told:  # events are told by and by
        told = {each.reason: each.message for each in (await client.of(Event).list()).items}
    assert told[reason] == (
        "Unable to retrieve some image pull secrets (none); attempting to pull the image may not succeed."
    )


async def own_pod(kubelet: Kubelet) -> None:
    await until(lambda: phase(kubelet, OWN) == "Running")
    assert actions(kubelet, OWN)[:4] == ["check permissions", "make groups", "show mirror pod", "make data directory"]
    shown = {outcome for action, outcome in steps(kubelet, OWN) if action == "show mirror pod"}
    assert shown <= {"made", "there"}  # whoever comes first: this step, or the one who keeps mirrors


def test_steps_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        line, manifests = Line(), tmp_path / "manifests"
        manifests.mkdir()
        async with Cluster(components=("apiserver", "controllers")) as cluster:
            line.open(cluster.assembly.transport)
            async with real_node(tmp_path, line, static_folder=manifests) as kubelet:
                await kubelet.ready.wait()
                await scenario(cluster, kubelet)
                (manifests / "own.json").write_text(manifest("own"))
                await own_pod(kubelet)
                await line.cut()

    asyncio.run(main())


def test_what_may_not_go_on_under_another_kubelet_ends(tmp_path: Path) -> None:
    """The pod says that it ran before: this kubelet was told otherwise than the one that began it."""

    async def main() -> None:
        line = Line()
        async with Cluster(components=("apiserver", "controllers")) as cluster:
            line.open(cluster.assembly.transport)
            client = cluster.client
            made = await client.of(Pod).create(pod("web"))
            running = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
            running["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
            status = {"status": {"phase": "Running", "containerStatuses": [running]}}
            await client.of(Pod).patch("web", status, "default", subresource="status")
            async with real_node(tmp_path, line, host_network_sources=["file"]) as kubelet:
                await kubelet.ready.wait()
                await until(lambda: phase(kubelet, "web") == "Failed")
                found = kubelet.find("default", "web")
                assert found is not None
                assert found.status.reason == "Blocked"
                assert found.status.message == (
                    f'pod with UID "{made.metadata.uid}" specified host networking, but is disallowed'
                )
                assert "run sandbox" not in actions(kubelet, "web")
                await line.cut()

    asyncio.run(main())
