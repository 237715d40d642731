"""What tests do with a cluster, whether it runs in this process (`Cluster`) or elsewhere (`ExternalCluster`).

Every operation has two forms: `apply` blocks, for tests without an event loop; `async_apply` is awaited, on the loop of
a cluster that was entered with `async with`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import Clock, VirtualClock
from sampan.machinery.client import Client
from sampan.testing.builders import manifest
from sampan.testing.errors import UnsupportedByCluster, WaitTimeout
from sampan.testing.manifests import Manifest, Object, Objects, check_hollow_annotations, read_manifests
from sampan.testing.untyped_objects import UntypedObjects
from sampan.testing.wait_conditions import Condition, WaitCondition

__tracebackhide__ = True  # pytest leaves the frames of this module out of tracebacks
if TYPE_CHECKING:
    from sampan.testing.cluster_dump import ClusterDump

T = TypeVar("T")
Target: TypeAlias = "str | Mapping[str, Any] | msgspec.Struct | Iterable[Target]"
"""Objects to read or to wait for: `deployment/web`, an object with kind and name, or several of them."""

DUMP_LIMIT = 16 << 10
"""The maximum length of a dump, in characters."""
TIMEOUT_S = 30.0
"""How long `wait_for` waits unless the test says otherwise."""
_POLL_S = 0.02
_MARGIN_S = 60.0
"""How much longer a blocking call waits for its coroutine than the coroutine waits for the cluster."""


class ClusterOperations(ABC):
    clock: Clock

    @property
    @abstractmethod
    def client(self) -> Client:
        """Sampan's own client, with the rights of the administrator; its coroutines run on the loop of the cluster."""

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """The path of a kubeconfig file of the administrator."""

    @abstractmethod
    def kubeconfig_for(self, namespace: str) -> Path:
        """Return the path of a kubeconfig file with this namespace as the default."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
        """Run a coroutine on the loop of the cluster and return its result."""

    @cached_property
    def _objects(self) -> UntypedObjects:
        return UntypedObjects(self.client)

    # -- objects -----------------------------------------------------------------------------------------------------

    def apply(self, manifest: Manifest, *, namespace: str = "default") -> Objects:
        """Apply the objects of a manifest server-side and return them as the server has stored them.

        The manifest is YAML or JSON text, the path of a file or directory, an object, or a list of these. `namespace`
        is for namespaced objects that name none. Definitions of custom resources are established when the call returns.
        Raise ValueError for an annotation for hollow containers that has no effect.
        """
        return self.run(self.async_apply(manifest, namespace=namespace), TIMEOUT_S + _MARGIN_S)

    async def async_apply(self, manifest: Manifest, *, namespace: str = "default") -> Objects:
        """Apply the objects of a manifest, as `apply` does."""
        objects = []
        for value in read_manifests(manifest):
            check_hollow_annotations(value)
            stored = await self._objects.apply(value, namespace)
            if value["kind"] == "CustomResourceDefinition":
                stored = (await self.async_wait_for(stored, "condition=Established"))[0]
            objects.append(stored)
        return objects

    def get(self, target: Target, *, namespace: str = "default") -> Object:
        """Return an object as plain values. Raise LookupError if it does not exist."""
        return self.run(self.async_get(target, namespace=namespace))

    async def async_get(self, target: Target, *, namespace: str = "default") -> Object:
        reference = (await self._resolve(target, namespace))[0]
        value = await reference.read(self._objects)
        if value is None:
            raise LookupError(f"{reference} does not exist")
        return value

    def list(self, kind: str, *, namespace: str = "default", labels: str = "") -> Objects:
        """Return the objects of a kind in a namespace, or in all of them with an empty namespace."""
        return self.run(self.async_list(kind, namespace=namespace, labels=labels))

    async def async_list(self, kind: str, *, namespace: str = "default", labels: str = "") -> Objects:
        return await self._objects.list(await self._objects.resource_named(kind), namespace, labels=labels)

    def delete(self, target: Target, *, namespace: str = "default") -> None:
        """Start the deletion of objects; `wait_for(target, "delete")` waits for its end."""
        self.run(self.async_delete(target, namespace=namespace))

    async def async_delete(self, target: Target, *, namespace: str = "default") -> None:
        for reference in await self._resolve(target, namespace):
            await self._objects.delete(reference.resource, reference.name, reference.namespace)

    # -- waits -------------------------------------------------------------------------------------------------------

    def wait_for(
        self, target: Target, condition: Condition, *, namespace: str = "default", timeout_s: float = TIMEOUT_S
    ) -> Objects:
        """Wait until all targets meet a condition and return them; after `delete` the list is empty.

        The condition is a function of the object, or a text as of `kubectl wait --for`: `condition=Ready`,
        `jsonpath={.status.phase}=Running`, `create`, `delete`. Raise WaitTimeout, with the conditions and events of the
        object and why its pods do not run, after `timeout_s` of real time.
        """
        work = self.async_wait_for(target, condition, namespace=namespace, timeout_s=timeout_s)
        return self.run(work, timeout_s + _MARGIN_S)

    async def async_wait_for(
        self, target: Target, condition: Condition, *, namespace: str = "default", timeout_s: float = TIMEOUT_S
    ) -> Objects:
        deadline = asyncio.get_running_loop().time() + timeout_s
        check = WaitCondition(condition)
        values = []
        for reference in await self._resolve(target, namespace):
            while not check.evaluate(value := await reference.read(self._objects)):
                if asyncio.get_running_loop().time() >= deadline:
                    raise WaitTimeout(await self._wait_failure(reference, check, value, timeout_s))
                await asyncio.sleep(_POLL_S)
            values += [value] if value is not None else []
        return values

    async def _wait_failure(
        self, reference: ObjectTarget, check: WaitCondition, value: Object | None, timeout_s: float
    ) -> str:
        lines = [f"{reference}: {check.text} was not met within {timeout_s:g} s"]
        if check.last_error:
            lines.append(f"the condition raised {check.last_error}")
        lines += await self._diagnose(value) if value is not None else ["it does not exist"]
        if isinstance(self.clock, VirtualClock):
            lines.append("the clock of the cluster is virtual: cluster.advance(seconds=…) lets time pass")
        return "\n".join(lines)

    def explain(self, target: Target, *, namespace: str = "default") -> str:
        """Return the conditions and events of an object, and why its pods do not run."""
        return self.run(self.async_explain(target, namespace=namespace))

    async def async_explain(self, target: Target, *, namespace: str = "default") -> str:
        value = await self.async_get(target, namespace=namespace)
        return "\n".join(await self._diagnose(value))

    async def _diagnose(self, value: Object) -> Sequence[str]:
        from sampan.testing.object_diagnosis import (
            ObjectDiagnosis,  # loads a part of the command line, which few tests need
        )

        return await ObjectDiagnosis(self._objects).explain(value)

    def dump(self, namespace: str = "default", *, limit: int = DUMP_LIMIT) -> str:
        """Return the objects and events of a namespace, recent writes and log lines, with masked Secrets, in at most
        `limit` characters."""
        return self.run(self.async_dump(namespace, limit=limit))

    async def async_dump(self, namespace: str = "default", *, limit: int = DUMP_LIMIT) -> str:
        return await self._make_dump().text(namespace, limit)

    def _make_dump(self) -> ClusterDump:
        from sampan.testing.cluster_dump import ClusterDump

        return ClusterDump(objects=self._objects, recorder=None)

    # -- namespaces --------------------------------------------------------------------------------------------------

    @contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """Create a new namespace for the duration of a block. Its deletion is started at the end and not awaited."""
        name = self.run(self._make_namespace(prefix))
        try:
            yield name
        finally:
            self.run(self.client.for_kind(Namespace).delete(name))

    @asynccontextmanager
    async def async_namespace(self, prefix: str = "test") -> AsyncIterator[str]:
        """Create a new namespace for the duration of a block, in a cluster that was entered with `async with`."""
        name = await self._make_namespace(prefix)
        try:
            yield name
        finally:
            await self.client.for_kind(Namespace).delete(name)

    async def _make_namespace(self, prefix: str) -> str:
        namespace = await self.client.for_kind(Namespace).create(
            Namespace(metadata=ObjectMeta(generateName=f"{prefix}-"))
        )
        await self._wait_for_accounts(namespace.metadata.name)
        return namespace.metadata.name

    @abstractmethod
    async def _wait_for_accounts(self, namespace: str) -> None:
        """Wait for the default service account of a namespace, without which pods cannot be created, if there is a
        controller that creates it."""

    # -- time --------------------------------------------------------------------------------------------------------

    def advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Let virtual time pass, and return when everything that became due is done: schedules, TTLs, backoff, leases,
        grace periods. The cluster needs `clock="virtual"`."""
        seconds += 60 * (minutes + 60 * (hours + 24 * days))
        self.run(self._virtual_clock().advance(seconds), timeout_s=max(60.0, seconds))

    async def async_advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Let virtual time pass, as `advance` does."""
        await self._virtual_clock().advance(seconds + 60 * (minutes + 60 * (hours + 24 * days)))

    def _virtual_clock(self) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise UnsupportedByCluster('the clock of the cluster is real: only Cluster(clock="virtual") can advance it')
        return self.clock

    # -- internals ---------------------------------------------------------------------------------------------------

    async def _resolve(self, target: Target, namespace: str) -> Sequence[ObjectTarget]:
        if isinstance(target, msgspec.Struct):
            target = manifest(target)
        if isinstance(target, str):
            kind, slash, name = target.partition("/")
            if not slash or not name:
                raise ValueError(f"target: {target!r} is not KIND/NAME, such as deployment/web")
            resource = await self._objects.resource_named(kind)
            return [ObjectTarget(resource=resource, name=name, namespace=namespace)]
        if isinstance(target, Mapping):
            resource = await self._objects.resource_of_kind(str(target["apiVersion"]), str(target["kind"]))
            metadata = target["metadata"]
            place = str(metadata.get("namespace") or namespace)
            return [ObjectTarget(resource=resource, name=str(metadata["name"]), namespace=place)]
        return [reference for part in target for reference in await self._resolve(part, namespace)]


class ObjectTarget(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    name: str
    namespace: str

    async def read(self, objects: UntypedObjects) -> Object | None:
        return await objects.get(self.resource, self.name, self.namespace)

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.resource.namespaced else ""
        return f"{self.resource.singular or self.resource.kind.lower()}/{self.name}{place}"
