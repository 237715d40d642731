"""The chain that runs the admission plug-ins in their order."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.apiserver.admission.contract import (
    AdmissionAttributes,
    MutatingAdmission,
    Operation,
    RegisteredPlugin,
    ValidatingAdmission,
)

_Key = tuple[Operation, str, str, str]


class AdmissionChain:
    def __init__(self, plugins: Sequence[RegisteredPlugin]) -> None:
        self._mutating = [row.mutating for row in plugins if row.mutating is not None]
        self._validating = [row.validating for row in plugins if row.validating is not None]
        self._mutating_by_key: dict[_Key, list[MutatingAdmission]] = {}
        self._validating_by_key: dict[_Key, list[ValidatingAdmission]] = {}

    async def admit(self, attributes: AdmissionAttributes) -> None:
        """Run mutating admission: the plug-ins may change the object or reject the request. They run a second time
        after a webhook or policy has changed the object."""
        key = _key(attributes)
        plugins = self._mutating_by_key.get(key)
        if plugins is None:
            plugins = self._mutating_by_key[key] = [p for p in self._mutating if _handles(p, attributes)]
        for plugin in plugins:
            await plugin.admit(attributes)
        if attributes.reinvocation.is_required:
            attributes.reinvocation.is_repeated = True
            for plugin in plugins:
                await plugin.admit(attributes)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Run validating admission: the plug-ins may reject the request."""
        key = _key(attributes)
        plugins = self._validating_by_key.get(key)
        if plugins is None:
            plugins = self._validating_by_key[key] = [p for p in self._validating if _handles(p, attributes)]
        for plugin in plugins:
            await plugin.validate(attributes)


def _key(attributes: AdmissionAttributes) -> _Key:
    resource = attributes.resource
    return attributes.operation, resource.group, resource.plural, attributes.subresource


def _handles(plugin: MutatingAdmission | ValidatingAdmission, attributes: AdmissionAttributes) -> bool:
    return plugin.handles(attributes.operation, attributes.resource, attributes.subresource)
