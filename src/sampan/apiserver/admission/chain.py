"""The admission seam: the contract of a plug-in, and the chain that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sampan.api.resource import Resource
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.call import User
    from sampan.apiserver.registry.registry import Registry

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True, kw_only=True)
class Attributes:
    """What a plug-in sees of a write. `obj` is the new object (None for a delete), which `admit` may change."""

    operation: Operation
    resource: Resource
    registry: Registry
    user: User
    namespace: str
    name: str
    obj: Any
    old: Any = None
    subresource: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _: None
    annotate: Callable[[str, str], None] = lambda key, value: None
    """Adds to what the audit log says of the write."""

    def refusal(self, why: str, causes: Sequence[Mapping[str, str]] = ()) -> errors.ApiError:
        """What a plug-in raises to refuse the write."""
        resource, name = self.resource, self.name
        if not name:
            meta = self.obj.metadata if self.obj is not None else None
            name = (meta.name or meta.generateName if meta is not None else "") or "Unknown"
        return errors.forbidden(resource.plural, name, why, group=resource.group, causes=causes)


class Plugin(Protocol):
    """Implements `admit` (may change the object), `validate` (may only refuse it), or both. A refusal is an ApiError,
    made by `refusal` unless the plug-in's real counterpart answers otherwise."""

    name: str

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Whether the plug-in looks at such writes at all; asked once per kind of write."""


class AdmissionChain:
    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._plugins = tuple(plugins)
        self._picked: dict[tuple[Operation, str, str, str], tuple[list[Any], list[Any]]] = {}

    async def admit(self, attributes: Attributes) -> None:
        for admit in self._for(attributes)[0]:
            await admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for validate in self._for(attributes)[1]:
            await validate(attributes)

    def _for(self, attributes: Attributes) -> tuple[list[Any], list[Any]]:
        resource = attributes.resource
        key = (attributes.operation, resource.group, resource.plural, attributes.subresource)
        found = self._picked.get(key)
        if found is None:
            mine = [p for p in self._plugins if p.handles(attributes.operation, resource, attributes.subresource)]
            found = self._picked[key] = (
                [plugin.admit for plugin in mine if hasattr(plugin, "admit")],
                [plugin.validate for plugin in mine if hasattr(plugin, "validate")],
            )
        return found
