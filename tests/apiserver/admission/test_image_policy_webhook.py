from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.image_policy_webhook import FAILED_OPEN, ImagePolicyWebhook
from sampan.apiserver.admission.plugins import default_plugins
from tests.apiserver.cluster import NAMESPACE, Cluster
from tests.apiserver.in_process_server import in_process_client, run
from tests.apiserver.pods import spec_with_container


class ImageReviewServer:
    """Rejects images whose name starts with "bad", and records the reviews that it receives."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def respond(self, request: web.BaseRequest) -> web.Response:
        review = await request.json()
        self.requests.append(review["spec"])
        is_allowed = not any(container["image"].startswith("bad") for container in review["spec"]["containers"])
        return web.json_response(
            {**review, "status": {"allowed": is_allowed, "reason": "" if is_allowed else "bad image"}}
        )


@asynccontextmanager
async def serve_reviews(review_server: ImageReviewServer) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(review_server.respond))
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
async def cluster_with_policy(policy: dict[str, Any]) -> AsyncIterator[Cluster]:
    configuration = {"ImagePolicyWebhook": {"imagePolicy": policy}}
    async with in_process_client(
        plugins=default_plugins(enabled=["ImagePolicyWebhook"], configurations=configuration)
    ) as client:
        cluster = Cluster(client)
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        await cluster.make(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        yield cluster


def test_webhook_decision_is_enforced_and_cached(tmp_path: Path) -> None:
    async def main() -> None:
        review_server = ImageReviewServer()
        async with (
            serve_reviews(review_server) as url,
            cluster_with_policy({"kubeConfigFile": kubeconfig(tmp_path, url)}) as cluster,
        ):
            await cluster.create_pod("a", annotations={"x.image-policy.k8s.io/y": "1", "other": "2"})
            await cluster.create_pod("b", annotations={"x.image-policy.k8s.io/y": "1"})
            assert review_server.requests == [
                {
                    "containers": [{"image": "nginx:1"}],
                    "annotations": {"x.image-policy.k8s.io/y": "1"},
                    "namespace": "ns",
                }
            ]
            assert await cluster.try_create_pod(spec_with_container(image="bad:1"), name="c") == (
                403,
                'pods "c" is forbidden: image policy webhook backend denied one or more images: bad image',
            )

    run(main())


@pytest.mark.parametrize("default_allow", [True, False])
def test_default_allow_decides_if_webhook_is_unreachable(tmp_path: Path, default_allow: bool) -> None:
    async def main() -> None:
        async with serve_reviews(ImageReviewServer()) as url:
            pass
        policy = {"kubeConfigFile": kubeconfig(tmp_path, url), "defaultAllow": default_allow}
        async with cluster_with_policy(policy) as cluster:
            if default_allow:
                assert (await cluster.create_pod())["metadata"]["annotations"] == {FAILED_OPEN: "true"}
            else:
                assert (await cluster.try_create_pod({}))[0] == 403

    run(main())


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ({}, "kubeConfigFile: is missing"),
        ({"kubeConfigFile": "/none"}, "none"),
        ({"kubeConfigFile": "", "allowTTL": 1}, "is missing"),
    ],
)
def test_invalid_configurations_are_rejected(policy: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        ImagePolicyWebhook({"imagePolicy": policy})
