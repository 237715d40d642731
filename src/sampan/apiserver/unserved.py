"""Warnings for kinds that are stored but not implemented yet.

A webhook or a policy that is accepted silently makes a test pass although nothing was checked. A row of `UNSERVED` is
removed when its feature is implemented.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api import times
from sampan.api.resource import Resource
from sampan.apiserver.admission.contract import AdmissionAttributes, Operation
from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.request.patches import MERGE_PATCH
from sampan.machinery import errors
from sampan.storage.backend import StorageError
from sampan.storage.cacher import CacheError, WatchQuery

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline

log = logging.getLogger(__name__)

_EXTENSIONS, _ADMISSION, _REGISTRATION = (
    "apiextensions.k8s.io",
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
)
_METRICS = "v1beta1.metrics.k8s.io"
"""The APIService to which the metrics API is proxied."""
_ESTABLISHED = "Established"
_RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class Unserved:
    consequence: str
    """The effect of the missing feature, for the warning."""
    concerns: Callable[[Any], bool] = lambda obj: True
    """Whether an object of the kind is affected."""


def _is_elsewhere(service: Any) -> bool:
    """Whether an APIService refers to a service in the cluster; the metrics API, which is proxied, does not count."""
    return service.spec.service is not None and service.metadata.name != _METRICS


_POLICIES = Unserved("its expressions are not evaluated, and no request is refused or changed because of it")
_WEBHOOKS = Unserved("its webhooks are not called, and no request is refused or changed because of it")
UNSERVED: dict[tuple[str, str], Unserved] = {
    (_EXTENSIONS, "CustomResourceDefinition"): Unserved("the custom resources that it defines are not served"),
    (_ADMISSION, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "MutatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingAdmissionPolicy"): _POLICIES,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _POLICIES,
    (_ADMISSION, "MutatingAdmissionPolicy"): _POLICIES,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): _POLICIES,
    (_REGISTRATION, "APIService"): Unserved("requests for its group are not passed on", _is_elsewhere),
}


def message_for(kind: str, row: Unserved) -> str:
    return f"this server stores {kind} objects but does not act on them yet: {row.consequence}"


class UnservedKinds:
    """An admission plugin that warns when an unimplemented object is created."""

    name = "UnservedKinds"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return operation == "CREATE" and not subresource and (resource.group, resource.kind) in UNSERVED

    async def validate(self, attributes: AdmissionAttributes) -> None:
        resource, meta = attributes.resource, attributes.obj.metadata
        row = UNSERVED[resource.group, resource.kind]
        if not row.concerns(attributes.obj):
            return
        text = message_for(resource.kind, row)
        attributes.warn(text)
        if not attributes.dry_run:
            log.warning("%s %s was created: %s", resource.kind, meta.name or meta.generateName, text)


class UnservedDefinitions:
    """Sets the Established condition of each CustomResourceDefinition to False, so that clients that wait for it see
    why."""

    def __init__(self, *, pipeline: Pipeline) -> None:
        self._pipeline, self._registry = pipeline, pipeline.endpoints.registry

    async def run(self) -> None:
        """Watch the definitions until cancelled."""
        row = UNSERVED.get((_EXTENSIONS, "CustomResourceDefinition"))
        if row is None:
            return
        store = self._registry.open_store_of(_EXTENSIONS, "v1", "CustomResourceDefinition")
        while True:
            try:
                async with store.cacher.watch(WatchQuery()) as watcher:
                    async for _ in watcher:
                        for item in store.cacher.peek_all():
                            await self._mark(store.cacher.object(item), message_for("CustomResourceDefinition", row))
            except (CacheError, StorageError, errors.ApiError) as error:
                log.warning("cannot read custom resource definitions: %s; retrying", error)
            await asyncio.sleep(_RETRY_S)

    async def _mark(self, definition: Any, message: str) -> None:
        conditions = definition.status.conditions or ()
        if definition.metadata.deletionTimestamp or any(other.type == _ESTABLISHED for other in conditions):
            return
        condition = {
            "type": _ESTABLISHED,
            "status": "False",
            "lastTransitionTime": times.format_time(self._registry.clock.now()),
            "reason": "NotServed",
            "message": message,
        }
        others = [msgspec.to_builtins(other) for other in conditions]
        path = f"/apis/{_EXTENSIONS}/v1/customresourcedefinitions/{definition.metadata.name}/status"
        call = Call(
            method="PATCH",
            path=path,
            query=Query(""),
            headers={"Content-Type": MERGE_PATCH, "User-Agent": "sampan-apiserver"},
            body=msgspec.json.encode({"status": {"conditions": [*others, condition]}}),
            user=SYSTEM,
        )
        try:
            await self._pipeline.serve_as(call)
        except errors.NotFound:
            return
