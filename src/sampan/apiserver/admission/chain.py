"""The contract of an admission plugin, and the chain that runs the plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sampan.api.resource import Resource
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.request.call import UserInfo

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True, kw_only=True)
class Attributes:
    """What a plugin sees of a request. `obj` is the new object (None for a delete), which `admit` may change."""

    operation: Operation
    resource: Resource
    registry: Registry
    user: UserInfo
    namespace: str
    name: str
    obj: Any
    old: Any = None
    subresource: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _: None
    annotate: Callable[[str, str], None] = lambda key, value: None
    """Adds an audit annotation to the request."""

    def refusal(self, why: str, causes: Sequence[Mapping[str, str]] = ()) -> errors.ApiError:
        """Return the Forbidden error that a plugin raises to reject the request."""
        resource, name = self.resource, self.name
        if not name:
            meta = self.obj.metadata if self.obj is not None else None
            name = (meta.name or meta.generateName if meta is not None else "") or "Unknown"
        return errors.forbidden(resource.plural, name, why, group=resource.group, causes=causes)


class Plugin(Protocol):
    """An admission plugin. It implements `admit` (may change the object), `validate` (may only reject it), or both. A
    rejection is an ApiError, made by `refusal` unless the Kubernetes counterpart returns another error."""

    name: str

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Whether the plugin applies to such requests. The result is cached for each operation, resource and
        subresource."""


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
        callables = self._picked.get(key)
        if callables is None:
            mine = [p for p in self._plugins if p.handles(attributes.operation, resource, attributes.subresource)]
            callables = self._picked[key] = (
                [plugin.admit for plugin in mine if hasattr(plugin, "admit")],
                [plugin.validate for plugin in mine if hasattr(plugin, "validate")],
            )
        return callables
