"""A cluster with an admission policy and its binding."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sampan.apiserver.admission.plugins import default_plugins
from sampan.machinery.telemetry.metrics import Metrics
from tests.apiserver.cluster import NAMESPACE, Cluster
from tests.apiserver.in_process_server import Reply, in_process_client

CONFIGMAPS = f"{NAMESPACE}/configmaps"


RULES = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]


class Policies:
    """A cluster with one policy and its binding."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def add(self, kind: str, spec: dict[str, Any], **binding: Any) -> None:
        path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()[:-1]}ies"
        constraints = {"resourceRules": RULES, **spec.pop("matchConstraints", {})}
        await self.cluster.make(path, {"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints, **spec}})
        bindings = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}bindings"
        value = {"metadata": {"name": "b"}, "spec": {"policyName": "p", **binding}}
        await self.cluster.make(bindings, value)
        for name, stored_kind in (("p", kind), ("b", f"{kind}Binding")):
            store = self.cluster.registry.open_store_of("admissionregistration.k8s.io", "v1", stored_kind)
            await store.cacher.get("", name)  # the cache is as fresh as the store

    async def validate(self, *validations: dict[str, Any], actions: tuple[str, ...] = ("Deny",), **spec: Any) -> None:
        reference = spec.pop("paramRef", None)
        binding = {"validationActions": list(actions), **({"paramRef": reference} if reference else {})}
        await self.add("ValidatingAdmissionPolicy", {"validations": list(validations), **spec}, **binding)

    async def create(self, name: str = "a", **content: Any) -> Reply:
        value = {"metadata": {"name": name, **content.pop("metadata", {})}, **content}
        return await self.cluster.send("POST", CONFIGMAPS, value)


@asynccontextmanager
async def policies(metrics: Metrics | None = None) -> AsyncIterator[Policies]:
    async with in_process_client(plugins=default_plugins(metrics=metrics)) as client:
        cluster = Cluster(client)
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": "ns", "labels": {"team": "a"}}})
        yield Policies(cluster)
