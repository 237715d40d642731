"""An API server on a virtual clock in which pods can be created."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from tests.controllers.cluster import Cluster, cluster


@asynccontextmanager
async def pod_cluster(feature_gates: FeatureGates | None = None) -> AsyncIterator[Cluster]:
    """A cluster with the service account that pods of namespace default run as."""
    async with cluster(feature_gates=feature_gates) as c:
        await c.client.for_kind(ServiceAccount).create(
            ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        )
        yield c
