"""IPAddress: an allocated address, which is the object's name, and the object that uses it."""

from collections.abc import Iterable

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.types.networking_v1 import IPAddress, ParentReference
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_dns_subdomain
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_PARENT_PATH = "spec.parentRef"


def _parent(ip_address: IPAddress, now: float) -> str:
    parent = ip_address.spec.parentRef
    if parent is None:
        return cells.NONE
    resource = f"{parent.resource}.{parent.group}" if parent.group else parent.resource
    return "/".join(part for part in (resource.lower(), parent.namespace, parent.name) if part)


_COLUMNS = (NAME, Column("ParentRef", _parent, field="spec.parentRef"), AGE)


class IPAddressStrategy(Strategy):
    columns = _COLUMNS

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return [error.detail for error in addresses.ip(name, "")]

    def validate_create(self, ctx: Context, obj: IPAddress) -> Iterable[FieldError]:
        return _validate_parent(obj.spec.parentRef)

    def validate_update(self, ctx: Context, obj: IPAddress, old: IPAddress) -> Iterable[FieldError]:
        return _validate_parent(obj.spec.parentRef)


def _validate_parent(parent: ParentReference | None) -> FieldErrors:
    if parent is None:
        return
    if parent.group:
        yield from validate_dns_subdomain(parent.group, f"{_PARENT_PATH}.group")
    for field in ("resource", "name", "namespace"):
        value = getattr(parent, field)
        for text in names.path_segment(value) if value else ():
            yield FieldError.invalid(f"{_PARENT_PATH}.{field}", value, text)


BEHAVIOR = ResourceBehavior(strategy=IPAddressStrategy())
