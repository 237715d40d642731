"""Caches the secrets and config maps that a node's pods refer to, each watched for as long as a pod refers to it.

The node authorizer allows a node to read only the objects that its pods need, one at a time, so every object has its
own watch. Immutable objects are no longer watched once they are known. (Kubernetes: `pkg/kubelet/secret`,
`pkg/kubelet/configmap`.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from sampan.api.semantics.pod_references import config_map_names, secret_names
from sampan.api.types.core_v1 import ConfigMap, Container, Pod, Secret
from sampan.machinery.client import Selection, resource_of
from sampan.machinery.informer import InformerFactory

_RESPONSE_TIMEOUT_S = 10.0
"""Time to wait for the first response of the API server about an object, measured by the event loop's clock."""

T = TypeVar("T")
Changed = Callable[["ObjectKey"], None]


class ObjectKey(NamedTuple):
    kind: type
    namespace: str
    name: str


class NotSynced(Exception):
    """The API server did not return the object in time."""


class ObjectSource(Protocol):
    """Reads the objects that pods refer to. The result is None if there is no such object; NotSynced is raised if that
    is not known."""

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None: ...

    async def secret(self, namespace: str, name: str) -> Secret | None: ...


class PodObjects:
    def __init__(self, *, informers: InformerFactory, on_change: Changed | None = None) -> None:
        self._informers = informers
        self._listeners: list[Changed] = [on_change] if on_change is not None else []
        self._users: dict[ObjectKey, set[str]] = {}
        self._of_pod: dict[str, set[ObjectKey]] = {}
        self._subscribed: set[ObjectKey] = set()
        self._immutable: dict[ObjectKey, Any] = {}
        """Immutable objects, kept for as long as a pod refers to them."""

    def subscribe(self, listener: Changed) -> None:
        """Call `listener` for every object that is created, changed or deleted."""
        self._listeners.append(listener)

    def follow(self, pod: Pod) -> None:
        """Watch all objects that the pod refers to now, and stop watching those that it no longer refers to."""
        keys = set(references(pod))
        for key in self._of_pod.get(pod.metadata.uid, set()) - keys:
            self._drop(key, pod.metadata.uid)
        for key in keys:
            self._users.setdefault(key, set()).add(pod.metadata.uid)
            if key not in self._immutable:
                self._informer(key)
        self._of_pod[pod.metadata.uid] = keys

    def forget(self, uid: str) -> None:
        for key in self._of_pod.pop(uid, set()):
            self._drop(key, uid)

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return await self.get(ConfigMap, namespace, name)

    async def secret(self, namespace: str, name: str) -> Secret | None:
        return await self.get(Secret, namespace, name)

    async def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return the object, or None if there is none. Raise NotSynced if the API server does not respond in time."""
        key = ObjectKey(kind, namespace, name)
        if key in self._immutable:
            cached: T = self._immutable[key]
            return cached
        informer = self._informer(key)
        try:
            async with asyncio.timeout(_RESPONSE_TIMEOUT_S):
                await informer.synced.wait()
        except TimeoutError:
            word = kind.__name__.lower()
            raise NotSynced(f"failed to sync {word} cache: timed out waiting for the condition") from None
        item: T | None = informer.lister.get(name, namespace)
        if getattr(item, "immutable", False) and key in self._users:
            self._immutable[key] = item
            self._stop(key)
        return item

    def users(self, key: ObjectKey) -> set[str]:
        """Return the UIDs of the pods that refer to the object."""
        return set(self._users.get(key, ()))

    def _informer(self, key: ObjectKey) -> Any:
        informer = self._informers.informer(resource_of(key.kind), _selection(key))
        if key not in self._subscribed:
            self._subscribed.add(key)
            informer.subscribe(lambda old, new: self._notify(key))
        return informer

    def _notify(self, key: ObjectKey) -> None:
        for listener in self._listeners:
            listener(key)

    def _drop(self, key: ObjectKey, uid: str) -> None:
        users = self._users.get(key)
        if users is None:
            return
        users.discard(uid)
        if not users:
            del self._users[key]
            self._immutable.pop(key, None)
            self._stop(key)

    def _stop(self, key: ObjectKey) -> None:
        self._subscribed.discard(key)
        self._informers.forget(resource_of(key.kind), _selection(key))


def _selection(key: ObjectKey) -> Selection:
    return Selection(namespace=key.namespace, fields=f"metadata.name={key.name}")


def references(pod: Pod) -> Iterator[ObjectKey]:
    """Return every secret and config map that the pod refers to. Pure."""
    namespace = pod.metadata.namespace
    for name in secret_names(pod.spec):
        yield ObjectKey(Secret, namespace, name)
    for name in config_map_names(pod.spec):
        yield ObjectKey(ConfigMap, namespace, name)


async def read_variable_objects(
    objects: ObjectSource, pod: Pod, container: Container
) -> tuple[Mapping[str, ConfigMap | None], Mapping[str, Secret | None]]:
    """Read the config maps and secrets from which the container's environment variables are taken."""
    sources = [
        variable.valueFrom for variable in container.env if variable.valueFrom is not None and not variable.value
    ]
    maps = {source.configMapRef.name for source in container.envFrom if source.configMapRef is not None}
    maps |= {source.configMapKeyRef.name for source in sources if source.configMapKeyRef is not None}
    secrets = {source.secretRef.name for source in container.envFrom if source.secretRef is not None}
    secrets |= {source.secretKeyRef.name for source in sources if source.secretKeyRef is not None}
    namespace = pod.metadata.namespace
    return (
        {name: await objects.config_map(namespace, name) for name in maps},
        {name: await objects.secret(namespace, name) for name in secrets},
    )
