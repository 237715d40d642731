from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.admission.framework.configuration import ConfigurationError
from sampan.apiserver.admission.image_policy_webhook import FAILED_OPEN, ImagePolicyWebhook
from sampan.apiserver.admission.plugins import default_plugins
from tests.apiserver.cluster import NAMESPACE, Cluster
from tests.apiserver.in_process_server import asking, run
from tests.apiserver.pods import container


class Service:
    """Allows images whose name does not begin with "bad", and notes what it is asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def respond(self, request: web.BaseRequest) -> web.Response:
        review = await request.json()
        self.requests.append(review["spec"])
        is_good = not any(container["image"].startswith("bad") for container in review["spec"]["containers"])
        return web.json_response({**review, "status": {"allowed": is_good, "reason": "" if is_good else "bad image"}})


@asynccontextmanager
async def served(service: Service) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(service.respond))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/review"
    finally:
        await runner.cleanup()


def kubeconfig(directory: Path, url: str) -> str:
    file = directory / "kube.yaml"
    file.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}], "
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]}}"
    )
    return str(file)


@asynccontextmanager
async def guarded(policy: dict[str, Any]) -> AsyncIterator[Cluster]:
    configuration = {"ImagePolicyWebhook": {"imagePolicy": policy}}
    async with asking(plugins=default_plugins(enabled=["ImagePolicyWebhook"], configurations=configuration)) as asks:
        cluster = Cluster(asks)
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        await cluster.make(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        yield cluster


def test_the_service_decides_and_is_not_asked_twice(tmp_path: Path) -> None:
    async def main() -> None:
        service = Service()
        async with served(service) as url, guarded({"kubeConfigFile": kubeconfig(tmp_path, url)}) as cluster:
            await cluster.pod("a", annotations={"x.image-policy.k8s.io/y": "1", "other": "2"})
            await cluster.pod("b", annotations={"x.image-policy.k8s.io/y": "1"})
            assert service.requests == [
                {
                    "containers": [{"image": "nginx:1"}],
                    "annotations": {"x.image-policy.k8s.io/y": "1"},
                    "namespace": "ns",
                }
            ]
            assert await cluster.refused(container(image="bad:1"), name="c") == (
                403,
                'pods "c" is forbidden: image policy webhook backend denied one or more images: bad image',
            )

    run(main())


@pytest.mark.parametrize("allows", [True, False])
def test_when_the_service_cannot_be_asked(tmp_path: Path, allows: bool) -> None:
    async def main() -> None:
        async with served(Service()) as url:
            pass
        policy = {"kubeConfigFile": kubeconfig(tmp_path, url), "defaultAllow": allows}
        async with guarded(policy) as cluster:
            if allows:
                assert (await cluster.pod())["metadata"]["annotations"] == {FAILED_OPEN: "true"}
            else:
                assert (await cluster.refused({}))[0] == 403

    run(main())


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ({}, "kubeConfigFile: is missing"),
        ({"kubeConfigFile": "/none"}, "none"),
        ({"kubeConfigFile": "", "allowTTL": 1}, "is missing"),
    ],
)
def test_faulty_configurations(policy: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        ImagePolicyWebhook({"imagePolicy": policy})
