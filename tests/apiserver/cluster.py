"""An in-process API server with admission plugins and a namespace, for tests of whole requests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from sampan.apiserver.admission.framework.admission_configuration import Configurations
from sampan.apiserver.admission.plugins import default_plugins
from tests.apiserver.in_process_server import InProcessClient, Reply, in_process_client, run
from tests.apiserver.pods import pod_value

NAMESPACE = "/api/v1/namespaces/ns"
PODS = f"{NAMESPACE}/pods"
MERGE = "application/merge-patch+json"


class Cluster:
    def __init__(self, client: InProcessClient) -> None:
        self.client = client
        self.registry = client.registry

    async def send(self, method: str, path: str, value: Any = None, media: str = "application/json") -> Reply:
        body = msgspec.json.encode(value) if value is not None else b""
        return await self.client.send(method, path, body, content_type=media)

    async def make(self, path: str, value: dict[str, Any]) -> Any:
        reply = await self.send("POST", path, value)
        assert reply.code == 201, reply.body
        return reply.json

    async def create_pod(self, name: str = "a", spec: dict[str, Any] | None = None, **metadata: Any) -> Any:
        """Create a pod without a token volume."""
        value = pod_value({"automountServiceAccountToken": False, **(spec or {})}, **{"name": name, **metadata})
        return await self.make(PODS, _without_namespace(value))

    async def try_create_pod(self, spec: dict[str, Any], **metadata: Any) -> tuple[int, str]:
        value = pod_value(spec, **{"name": "a", **metadata})
        reply = await self.send("POST", PODS, _without_namespace(value))
        return reply.code, reply.json["message"]

    async def collect_warnings(self, path: str, value: dict[str, Any]) -> list[str]:
        """Create an object and return the warnings of the response."""
        call = self.client.make_call("POST", path, msgspec.json.encode(value), {"content_type": "application/json"})
        await self.client.pipeline.serve_as(call)
        return call.warnings

    async def get_cells(self, path: str) -> list[list[Any]]:
        """Return the cells of the rows of a table."""
        table = (await self.client.get(path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json
        return [row["cells"] for row in table["rows"]]

    async def patch(self, path: str, value: dict[str, Any]) -> Reply:
        return await self.send("PATCH", path, value, MERGE)


def _without_namespace(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "metadata": {key: part for key, part in value["metadata"].items() if key != "namespace"}}


@asynccontextmanager
async def cluster(configurations: Configurations | None = None, **options: Any) -> AsyncIterator[Cluster]:
    """Run a cluster; `configurations` are the configurations of single admission plugins."""
    async with in_process_client(plugins=default_plugins(configurations=configurations), **options) as client:
        cluster = Cluster(client)
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        await cluster.make(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        yield cluster


def run_in_cluster(
    work: Callable[[Cluster], Awaitable[None]], configurations: Configurations | None = None, **options: Any
) -> None:
    async def main() -> None:
        async with cluster(configurations, **options) as running:
            await work(running)

    run(main())
