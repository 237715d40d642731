"""The expected number of pods: the sum of the scales of their controllers."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.resource import Resource
from sampan.api.semantics.owners import controller_of
from sampan.api.types.apps_v1 import Deployment, ReplicaSet, StatefulSet
from sampan.api.types.autoscaling_v1 import Scale
from sampan.api.types.core_v1 import Pod, ReplicationController
from sampan.api.types.meta_v1 import OwnerReference
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.client.codecs import codec_of, path_of
from sampan.machinery.client.transport import Request
from sampan.machinery.informer import InformerFactory, Lister

Discover = Callable[[], Awaitable[tuple[Sequence[Resource], str]]]
OwnerScale = tuple[str, int]
"""The UID of a controller and its scale."""


class ScaleError(Exception):
    """The scale cannot be determined; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Total:
    scale: int
    unmanaged: Sequence[str]
    """The names of pods without a controller."""


class Scales:
    kinds = (ReplicationController, ReplicaSet, Deployment, StatefulSet)
    """The kinds that are read from caches; for others the scale subresource is requested."""

    def __init__(self, *, client: Client, informers: InformerFactory, discover: Discover) -> None:
        self._client, self._discover = client, discover
        self._sets = informers.of(ReplicaSet).lister
        self._deployments = informers.of(Deployment).lister
        self._others: dict[tuple[str, str], Lister[Any]] = {
            ("", "ReplicationController"): informers.of(ReplicationController).lister,
            ("apps", "StatefulSet"): informers.of(StatefulSet).lister,
        }

    async def total(self, pods: Iterable[Pod]) -> Total:
        scales: dict[str, int] = {}
        unmanaged = []
        owners: set[str] = set()
        for pod in pods:
            ref = controller_of(pod)
            if ref is None:
                unmanaged.append(pod.metadata.name)
            elif ref.uid not in owners:
                owners.add(ref.uid)
                uid, scale = await self._scale(ref, pod)
                scales[uid] = scale
        return Total(sum(scales.values()), unmanaged)

    async def _scale(self, ref: OwnerReference, pod: Pod) -> OwnerScale:
        namespace = pod.metadata.namespace
        scale = self._from_caches(ref, namespace) or await self._from_subresource(ref, namespace)
        if scale is None:
            raise ScaleError(f'found no controllers for pod "{pod.metadata.name}"')
        return scale

    def _from_caches(self, ref: OwnerReference, namespace: str) -> OwnerScale | None:
        group = ref.apiVersion.rpartition("/")[0]
        if ref.kind == "ReplicaSet" and group in ("apps", "extensions"):
            return self._of_set(ref, namespace)
        lister = self._others.get((group, ref.kind))
        return _owner_scale(lister.get(ref.name, namespace), ref.uid) if lister is not None else None

    def _of_set(self, ref: OwnerReference, namespace: str) -> OwnerScale | None:
        """Return the scale of the ReplicaSet's Deployment, or its own if it has none."""
        owned = self._sets.get(ref.name, namespace)
        if owned is None or owned.metadata.uid != ref.uid:
            return None
        above = controller_of(owned)
        if above is None or above.kind != "Deployment":
            return _owner_scale(owned, ref.uid)
        return _owner_scale(self._deployments.get(above.name, namespace), above.uid)

    async def _from_subresource(self, ref: OwnerReference, namespace: str) -> OwnerScale | None:
        resource = await self._resource_of(ref)
        path = path_of(resource, namespace, ref.name, "scale")
        try:
            response = await self._client.send(Request(method="GET", path=path))
        except errors.NotFound:
            if resource.subresource("scale") is None:
                raise ScaleError(f"{resource.qualified} does not implement the scale subresource") from None
            return None
        scale: Scale = response.object(_SCALE)
        return (ref.uid, scale.spec.replicas) if scale.metadata.uid == ref.uid else None

    async def _resource_of(self, ref: OwnerReference) -> Resource:
        served, _ = await self._discover()
        for resource in served:
            if (resource.api_version, resource.kind) == (ref.apiVersion, ref.kind):
                return resource
        raise ScaleError(f'no matches for kind "{ref.kind}" in version "{ref.apiVersion}"')


def _scale_codec() -> Any:
    return codec_of(Resource(group="autoscaling", version="v1", kind="Scale", plural="scales", singular="scale"))


_SCALE = _scale_codec()


def _owner_scale(obj: Any, uid: str) -> OwnerScale | None:
    if obj is None or obj.metadata.uid != uid:
        return None
    return uid, obj.spec.replicas if obj.spec.replicas is not None else 1
