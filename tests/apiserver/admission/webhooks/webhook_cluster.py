"""A cluster whose admission webhooks are served by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sampan.apiserver.admission.framework.contract import RegisteredPlugin
from sampan.apiserver.admission.plugins import default_plugins
from sampan.apiserver.proxy.kubelets import KubeletAccess, Kubelets
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.webhooks.client import WebhookClients
from sampan.machinery.telemetry.metrics import Metrics
from tests.apiserver.cluster import NAMESPACE, Cluster
from tests.apiserver.in_process_server import in_process_client
from tests.apiserver.webhook_server import Respond, WebhookServer, webhook_server

CONFIGMAPS = f"{NAMESPACE}/configmaps"


PATHS = {
    kind: f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
}


class Webhooks:
    """A cluster, and a server that responds to the reviews of its webhooks."""

    def __init__(self, cluster: Cluster, server: WebhookServer, clients: WebhookClients) -> None:
        self.cluster, self.server, self.clients = cluster, server, clients

    async def register(self, kind: str, *hooks: dict[str, Any], name: str = "config") -> None:
        complete = [
            {
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": self.server.client_config(hook.pop("path", "/review")),
                "rules": [rule("configmaps")],
                **hook,
            }
            for hook in hooks
        ]
        await self.cluster.make(PATHS[kind], {"metadata": {"name": name}, "webhooks": complete})
        store = self.cluster.registry.open_store_of("admissionregistration.k8s.io", "v1", kind)
        await store.cacher.get("", name)  # the cache is as fresh as the store

    async def create(self, name: str = "a", query: str = "", **content: Any) -> Any:
        value = {"metadata": {"name": name, **content.pop("metadata", {})}, **content}
        return await self.cluster.send("POST", f"{CONFIGMAPS}{query}", value)


@asynccontextmanager
async def webhooks(
    directory: Path, respond: Respond, names: tuple[str, ...] = (), metrics: Metrics | None = None
) -> AsyncIterator[Webhooks]:
    async with AsyncExitStack() as stack:

        def make_plugins(registry: Registry) -> Sequence[RegisteredPlugin]:
            kubelets = Kubelets(registry=registry, access=KubeletAccess())
            clients.append(WebhookClients(registry=registry, kubelets=kubelets))
            return default_plugins(metrics=metrics, webhooks=clients[0])

        clients: list[WebhookClients] = []
        client = await stack.enter_async_context(in_process_client(make_plugins=make_plugins))
        server = await stack.enter_async_context(webhook_server(directory, respond, names))
        stack.push_async_callback(clients[0].close)
        cluster = Cluster(client)
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": "ns", "labels": {"team": "a"}}})
        yield Webhooks(cluster, server, clients[0])


def rule(*resources: str, **fields: Any) -> dict[str, Any]:
    standard = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": list(resources)}
    return {**standard, **fields}


def allow(path: str, request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def deny(path: str, request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": "no luck", "code": 409, "reason": "Conflict"}}
