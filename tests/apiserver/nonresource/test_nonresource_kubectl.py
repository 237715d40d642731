"""Real kubectl against discovery, OpenAPI and tables."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sampan.apiserver import descriptions
from tests.api_server import Server, running_api_server
from tests.apiserver.in_process_server import run

Kubectl = Callable[..., Awaitable[str]]

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def _run_with_kubectl(home: Path, check: Callable[[Kubectl], Awaitable[None]]) -> None:
    async def work() -> None:
        async with running_api_server() as server:
            await check(_make_kubectl(server, home))

    run(work())


def _make_kubectl(server: Server, home: Path) -> Kubectl:
    async def kubectl(*arguments: str, stdin: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            *("kubectl", "--server", server.url, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        )
        output, _ = await process.communicate(stdin.encode())
        return output.decode()

    return kubectl


def test_kubectl_lists_api_versions_and_resources(tmp_path: Path) -> None:
    async def check(kubectl: Kubectl) -> None:
        for _ in range(2):  # the second time from the discovery cache of kubectl
            assert "apps/v1\n" in await kubectl("api-versions")
            resources = await kubectl("api-resources")
            assert "deployments" in resources
            assert "deploy" in resources
        assert '"gitVersion": "v1.37.1"' in await kubectl("version", "-o", "json")

    _run_with_kubectl(tmp_path, check)


def test_kubectl_explains_fields(tmp_path: Path) -> None:
    async def check(kubectl: Kubectl) -> None:
        shown = await kubectl("explain", "deployments.spec.template.spec.containers")
        assert "FIELD: containers <[]Container>" in shown
        if descriptions.are_installed():
            assert "List of containers belonging to the pod." in shown
        every = await kubectl("explain", "pods", "--recursive")
        assert "nodeName\t<string>" in every
        old = await kubectl("explain", "pods.spec", "--output", "plaintext-openapiv2")
        assert "RESOURCE: spec <Object>" in old

    _run_with_kubectl(tmp_path, check)


MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: x}
data: {k: v}
"""


def test_kubectl_creates_validates_and_gets_objects(tmp_path: Path) -> None:
    async def check(kubectl: Kubectl) -> None:
        assert await kubectl("create", "namespace", "x") == "namespace/x created\n"
        dry = await kubectl("create", "-f", "-", "--dry-run=client", "--validate=true", stdin=MANIFEST)
        assert dry == "configmap/a created (dry run)\n"
        odd = await kubectl("create", "-f", "-", "--validate=true", stdin=f"{MANIFEST}odd: 5\n")
        assert 'unknown field "odd"' in odd
        assert await kubectl("create", "-f", "-", stdin=MANIFEST) == "configmap/a created\n"
        assert await kubectl("apply", "-f", "-", stdin=MANIFEST.replace("k: v", "k: w")) != ""
        table = await kubectl("get", "configmaps", "-A")
        assert table.splitlines()[0].split()[:2] == ["NAMESPACE", "NAME"]
        assert table.splitlines()[1].split()[:2] == ["x", "a"]
        assert "k: w\n" in await kubectl("get", "configmap", "a", "-n", "x", "-o", "yaml")
        assert await kubectl("get", "configmap", "a", "-n", "x", "-o", "jsonpath={.data.k}") == "w"
        assert await kubectl("get", "ns", "x", "-o", "name") == "namespace/x\n"

    _run_with_kubectl(tmp_path, check)
