"""Terminals and logs of containers pass through the dashboard."""

from collections.abc import Iterator

import aiohttp
import pytest

from sampan.testing import Cluster
from tests.dashboard.page import Page, admin_page
from tests.eventually import eventually

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


async def test_exec_and_log_requests_pass_through_the_dashboard(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        await run_pod(page, "web")
        status, text = await page.k8s("GET", f"{PODS}/web/log")
        assert (status, type(text)) == (200, str)
        path = f"api/clusters/sampan/k8s{PODS}/web/exec?command=ls&stdout=true&stderr=true"
        async with page.stream(path, protocol="v5.channel.k8s.io") as stream:
            assert stream.socket.protocol == "v5.channel.k8s.io"
            message = await stream.socket.receive()
            assert (message.type, message.data[:1]) == (aiohttp.WSMsgType.BINARY, b"\x01")


async def run_pod(page: Page, name: str) -> None:
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await page.k8s("POST", PODS, json=pod))[0] == 201

    async def is_running() -> bool:
        return bool((await page.k8s("GET", f"{PODS}/{name}"))[1]["status"].get("phase") == "Running")

    await eventually(is_running)
