"""Pods with resource claims in a cluster."""

from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Pod
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimTemplate
from sampan.controllers.devices.resource_claims import FINALIZER
from tests.controllers.cluster import Cluster

DEVICES = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}


ALLOCATION: dict[str, Any] = {
    "devices": {"results": [{"request": "gpu", "driver": "d.example", "pool": "p", "device": "0"}]}
}


def pod_with_claim(name: str = "p", *, node: str = "", claim: str = "", template: str = "") -> Pod:
    fields = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template or "t"}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", **fields}],
    }
    if node:
        spec["nodeName"] = node
    return codec.from_value({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Pod)


def template() -> ResourceClaimTemplate:
    value = {"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": {"devices": DEVICES}}}
    return codec.from_value(value, ResourceClaimTemplate)


def claim(name: str = "c") -> ResourceClaim:
    return codec.from_value(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": DEVICES}}, ResourceClaim
    )


class ClaimCluster:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods, self.claims = cluster.client.for_kind(Pod), cluster.client.for_kind(ResourceClaim)

    async def settle(self) -> None:
        await self.cluster.clock.advance(1)

    async def allocate(self, name: str, *pods: Pod, results: list[Any] | None = None) -> None:
        """Allocate the claim and reserve it for the pods, as the scheduler does."""
        await self.claims.patch(name, {"metadata": {"finalizers": [FINALIZER]}}, "default")
        claim = await self.claims.get(name, "default")
        consumers = [{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid} for pod in pods]
        allocation = {"devices": {"results": results}} if results else ALLOCATION
        value = {"allocation": allocation, "reservedFor": consumers}
        claim = codec.from_value({**codec.to_value(claim), "status": value}, ResourceClaim)
        await self.claims.update_status(claim)
        await self.settle()

    async def get(self, name: str) -> ResourceClaim:
        return await self.claims.get(name, "default")

    async def finish(self, name: str) -> None:
        await self.pods.patch(name, {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        await self.settle()
