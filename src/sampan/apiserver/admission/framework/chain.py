"""The chain that runs the admission plugins in their order."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sampan.apiserver.admission.framework.contract import (
    AdmissionAttributes,
    MutatingAdmission,
    Operation,
    RegisteredPlugin,
    ValidatingAdmission,
)
from sampan.machinery.telemetry.flight_recorder import current_parts

P = TypeVar("P", MutatingAdmission, ValidatingAdmission)

_Key = tuple[Operation, str, str, str]
_POD_CREATION: _Key = ("CREATE", "", "pods", "")


class AdmissionChain:
    def __init__(self, plugins: Sequence[RegisteredPlugin]) -> None:
        self.manifests = [row.manifests for row in plugins if row.manifests is not None]
        self._mutating = [row.mutating for row in plugins if row.mutating is not None]
        self._validating = [row.validating for row in plugins if row.validating is not None]
        self._mutating_by_key: dict[_Key, list[MutatingAdmission]] = {}
        self._validating_by_key: dict[_Key, list[ValidatingAdmission]] = {}

    async def admit(self, attributes: AdmissionAttributes) -> None:
        """Run mutating admission: the plugins may change the object or reject the request. They run a second time
        after a webhook or policy has changed the object."""
        key = _key(attributes)
        plugins = self._mutating_by_key.get(key)
        if plugins is None:
            plugins = self._mutating_by_key[key] = [p for p in self._mutating if _handles(p, attributes)]
        await _call_all(plugins, _admit, attributes, key)
        if attributes.reinvocation.is_required:
            attributes.reinvocation.is_repeated = True
            await _call_all(plugins, _admit, attributes, key)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Run validating admission: the plugins may reject the request."""
        key = _key(attributes)
        plugins = self._validating_by_key.get(key)
        if plugins is None:
            plugins = self._validating_by_key[key] = [p for p in self._validating if _handles(p, attributes)]
        await _call_all(plugins, _validate, attributes, key)


async def _call_all(
    plugins: Sequence[P],
    call: Callable[[P, AdmissionAttributes], Awaitable[None]],
    attributes: AdmissionAttributes,
    key: _Key,
) -> None:
    """Call the plugins in their order. If the flight recorder collects the parts of a pod creation, add the duration
    of each plugin as a part."""
    parts = current_parts() if key == _POD_CREATION else None
    for plugin in plugins:
        if parts is None:
            await call(plugin, attributes)
            continue
        start = time.perf_counter()
        try:
            await call(plugin, attributes)
        finally:
            parts.add(plugin.name, start, time.perf_counter())


def _admit(plugin: MutatingAdmission, attributes: AdmissionAttributes) -> Awaitable[None]:
    return plugin.admit(attributes)


def _validate(plugin: ValidatingAdmission, attributes: AdmissionAttributes) -> Awaitable[None]:
    return plugin.validate(attributes)


def _key(attributes: AdmissionAttributes) -> _Key:
    resource = attributes.resource
    return attributes.operation, resource.group, resource.plural, attributes.subresource


def _handles(plugin: MutatingAdmission | ValidatingAdmission, attributes: AdmissionAttributes) -> bool:
    return plugin.handles(attributes.operation, attributes.resource, attributes.subresource)
