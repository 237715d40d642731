"""Conformance tests of sig-node for images, their commands and image volumes. The first paragraph of a docstring is the
official test name. One image is a static busybox; another, of files alone, is in a registry."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Event, Pod
from sampan.machinery.client import Selection
from sampan.runtimes.images import ImageStore
from sampan.runtimes.images.archives import load
from sampan.testing import Cluster
from tests.e2e.conformance.node.pods import container, container_status, create_pod
from tests.e2e.conformance.storage.real_node import NODE, RealNode, real_cluster, run_scenario
from tests.runtimes.engines import _is_static
from tests.runtimes.images.builders import Files, MadeImage, docker_archive
from tests.runtimes.images.registry import FakeRegistry, serving

NAME = "made.example/says:1"


def busybox() -> Path | None:
    busybox = shutil.which("busybox")
    return Path(busybox) if busybox is not None and _is_static(Path(busybox)) else None


def image(program: Path) -> MadeImage:
    """Return an image whose program writes its arguments as its termination message."""
    files: Files = {"bin": None, "tmp": None, "dev": None, "bin/busybox": program.read_bytes(), "bin/sh": "busybox"}
    script = 'echo "$0 $*" > /dev/termination-log'
    return MadeImage(
        files, pack=bytes, Env=["PATH=/bin"], Entrypoint=["/bin/sh", "-c", script], Cmd=["default", "args"]
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    program = busybox()
    if program is None:
        pytest.skip("there is no static busybox here")
    with real_cluster() as cluster:
        assert cluster.assembly.config.nodes.images is not None
        with tempfile.TemporaryDirectory() as directory:
            archive = docker_archive(Path(directory) / "image.tar", image(program), NAME)
            load(ImageStore(cluster.assembly.config.nodes.images), archive, now=time.time())
        yield cluster


def termination_message(cluster: Cluster, namespace: str, **fields: Any) -> str:
    """Return the termination message of a container of the image."""
    result: list[str] = []

    async def scenario(node: RealNode) -> None:
        first = {"name": "c", "image": NAME, **fields}
        spec = {"nodeName": NODE, "restartPolicy": "Never", "containers": [first]}
        value = {"metadata": {"name": "p", "namespace": namespace}, "spec": spec}
        await node.client.for_kind(Pod).create(json.from_value(value, Pod))
        state = container_status(await node.wait_until_succeeded("p")).state.terminated
        result.append(state.message.strip() if state is not None else "")

    cluster.run(run_scenario(cluster, namespace, scenario), timeout_s=60)
    return result[0]


def test_command_and_args_default_to_the_image(cluster: Cluster) -> None:
    """[sig-node] Containers should use the image defaults if command and args are blank [NodeConformance]
    [Conformance]"""
    assert termination_message(cluster, "blank") == "default args"


def test_args_override_the_image(cluster: Cluster) -> None:
    """[sig-node] Containers should be able to override the image's default arguments (container cmd) [NodeConformance]
    [Conformance]"""
    assert termination_message(cluster, "args", args=["override", "arguments"]) == "override arguments"


def test_command_overrides_the_image(cluster: Cluster) -> None:
    """[sig-node] Containers should be able to override the image's default command (container entrypoint)
    [NodeConformance] [Conformance]"""
    command = ["/bin/sh", "-c", 'echo "command $# $*" > /dev/termination-log']
    assert termination_message(cluster, "command", command=command) == "command 0"


def test_command_and_args_override_the_image(cluster: Cluster) -> None:
    """[sig-node] Containers should be able to override the image's default command and arguments [NodeConformance]
    [Conformance]"""
    command = ["/bin/sh", "-c", 'echo "both $0 $*" > /dev/termination-log']
    assert (
        termination_message(cluster, "both", command=command, args=["override", "arguments"])
        == "both override arguments"
    )


def test_image_volume(cluster: Cluster) -> None:
    """[sig-node] ImageVolume should succeed with pod and pull policy of Always [LinuxOnly]
    [MinimumKubeletVersion:1.35] [Conformance]"""
    registry, image = FakeRegistry(), MadeImage({"data.json": b"kitten.jpg", "etc": None, "etc/os-release": b"Alpine"})
    registry.add("kitten", "1", image)

    async def scenario(node: RealNode) -> None:
        async with serving(registry) as address:
            script = "cat /volume/data.json; echo; cat /volume/etc/os-release; echo; touch /volume/new 2>&1 || echo no"
            for name in ("first", "second"):
                requests = len(registry.requests)
                source = {"reference": f"{address}/kitten:1", "pullPolicy": "Always"}
                output = await node.output(script, {"name": "volume", "image": source}, name=name)
                assert output.splitlines()[:2] == ["kitten.jpg", "Alpine"]
                assert output.splitlines()[-1] == "no"
                assert "/v2/kitten/manifests/1" in registry.requests[requests:], "pull policy Always pulls for each pod"

    cluster.run(run_scenario(cluster, "volume", scenario), timeout_s=100)


def test_image_volume_with_missing_image_waits(cluster: Cluster) -> None:
    """The container that mounts the volume waits and an event is written; other containers start."""

    async def scenario(node: RealNode) -> None:
        async with serving(FakeRegistry()) as address:
            volume = {"name": "volume", "image": {"reference": f"{address}/nothing:1", "pullPolicy": "IfNotPresent"}}
            mounted = container("mounts", volumeMounts=[{"name": "volume", "mountPath": "/volume"}])
            await create_pod(node, mounted, container("other"), volumes=[volume])
            await node.wait_for("p", lambda pod: len(pod.status.containerStatuses) == 2 and waits(pod))
            fields = f"involvedObject.name=p,reason=Failed,involvedObject.namespace={node.namespace}"
            message = f'Failed to pull image "{address}/nothing:1"'
            async with asyncio.timeout(60), node.client.for_kind(Event).watch(Selection(fields=fields)) as events:
                async for batch in events:
                    if matching := [
                        matching.object for matching in batch if matching.object.message.startswith(message)
                    ]:
                        break
            assert matching[0].involvedObject.fieldPath == ""

    def waits(pod: Pod) -> bool:
        waiting, running = container_status(pod, "mounts").state.waiting, container_status(pod, "other").state.running
        if waiting is None or waiting.reason not in ("ErrImagePull", "ImagePullBackOff"):
            return False
        assert "nothing:1" in waiting.message
        return running is not None

    cluster.run(run_scenario(cluster, "no-volume", scenario), timeout_s=100)
