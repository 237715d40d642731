"""A private image on a real node: a pod may use it only with a pull secret that is valid for it."""

import base64
from pathlib import Path

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod, Secret
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.machinery.client import Client
from sampan.testing import Cluster
from tests.e2e.chaos.interruptible_transport import Line
from tests.eventually import eventually
from tests.kubelet.agent.real_node import NAME, phase, real_node
from tests.runtimes.engines import busybox_image
from tests.runtimes.images.registry import FakeRegistry, serving
from tests.skips import requires

pytestmark = requires("root", "crun or runc", "busybox")


def pod(name: str, image: str, *secrets: str, policy: str = "IfNotPresent") -> Pod:
    container = {"name": "c", "image": image, "command": ["/bin/busybox", "sleep", "1000"], "imagePullPolicy": policy}
    spec = {"nodeName": NAME, "hostNetwork": True, "containers": [container], "terminationGracePeriodSeconds": 0}
    spec["imagePullSecrets"] = [{"name": secret} for secret in secrets]
    return json.from_value({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Pod)


async def make_secret(client: Client, name: str, address: str, password: str = "secret") -> None:
    auth = base64.b64encode(f"may:{password}".encode()).decode()
    data = json.encode({"auths": {address: {"auth": auth}}})
    meta = ObjectMeta(name=name, namespace="default")
    secret = Secret(metadata=meta, type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": data})
    await client.for_kind(Secret).create(secret)


def waiting_reason(kubelet: Kubelet, name: str) -> str:
    pod = kubelet.find("default", name)
    states = [status.state.waiting for status in pod.status.containerStatuses] if pod is not None else []
    return states[0].reason if states and states[0] is not None else ""


async def scenario(client: Client, kubelet: Kubelet, registry: FakeRegistry, address: str) -> None:
    image = f"{address}/team/app:1"
    for name in ("key", "same-key"):
        await make_secret(client, name, address)
    await make_secret(client, "wrong-key", address, "wrong")
    await client.for_kind(Pod).create(pod("first", image, "wrong-key", "key"))
    await eventually(lambda: phase(kubelet, "first") == "Running")
    pulls = len(registry.requests)
    await client.for_kind(Pod).create(pod("second", image, "same-key"))
    await eventually(lambda: phase(kubelet, "second") == "Running")
    assert len(registry.requests) == pulls  # an equal secret needs no request to the registry
    await client.for_kind(Pod).create(pod("nobody", image))
    await client.for_kind(Pod).create(pod("stranger", image, "wrong-key"))
    await client.for_kind(Pod).create(pod("never", image, policy="Never"))
    await eventually(lambda: waiting_reason(kubelet, "nobody") in ("ErrImagePull", "ImagePullBackOff"))
    await eventually(lambda: waiting_reason(kubelet, "stranger") in ("ErrImagePull", "ImagePullBackOff"))
    await eventually(lambda: waiting_reason(kubelet, "never") == "ErrImageNeverPull")


async def test_pod_says_how_much_of_an_image_has_been_pulled(tmp_path: Path) -> None:
    registry, image = FakeRegistry(), busybox_image()
    registry.add("team/app", "1", image)
    registry.may_finish.clear()
    size = sum(len(data) for key, data in image.blobs.items() if key != image.digest) / 1_000_000

    line = Line()
    async with Cluster(components=("apiserver", "controllers")) as cluster, serving(registry) as address:
        line.open(cluster.assembly.transport)
        async with real_node(tmp_path, line, runtime="oci") as kubelet:
            await kubelet.ready.wait()
            pods = cluster.client.for_kind(Pod)
            await pods.create(pod("first", f"{address}/team/app:1"))
            text = f'pulling image "{address}/team/app:1": {size / 2:.1f} of {size:.1f} MB'

            async def says_so() -> bool:
                statuses = (await pods.get("first", "default")).status.containerStatuses
                waiting = statuses[0].state.waiting if statuses else None
                return waiting is not None and (waiting.reason, waiting.message) == ("ContainerCreating", text)

            await eventually(says_so)
            registry.may_finish.set()
            await eventually(lambda: phase(kubelet, "first") == "Running")
            await line.cut()


async def test_private_image_is_usable_only_by_pods_with_valid_pull_secrets(tmp_path: Path) -> None:
    registry = FakeRegistry(auth="basic")
    registry.add("team/app", "1", busybox_image())

    line = Line()
    async with Cluster(components=("apiserver", "controllers")) as cluster, serving(registry) as address:
        line.open(cluster.assembly.transport)
        async with real_node(tmp_path, line, runtime="oci") as kubelet:
            await kubelet.ready.wait()
            await scenario(cluster.client, kubelet, registry, address)
            await line.cut()
