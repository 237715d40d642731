"""The behavior of kinds without a module of their own: their traits, and a status that is a subresource."""

from functools import cache
from typing import Any

import msgspec

from sampan.api import names
from sampan.api.resource import Resource
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.strategy import Context, StatusStrategy, Strategy
from sampan.apiserver.registry.traits import Traits, traits_of


def _forget_empty_lists(obj: Any) -> None:
    """Turn empty lists without omitempty into null, as kube-apiserver does, whose protobuf cannot tell them apart."""
    kind: Any = type(obj)
    for name in _shown_lists(kind):
        if getattr(obj, name) == []:
            setattr(obj, name, None)


@cache
def _shown_lists(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.default_factory is type(None))


class GenericStrategy(Strategy):
    def __init__(self, traits: Traits, *, has_status: bool) -> None:
        self._traits, self._has_status = traits, has_status
        self.allow_create_on_update = traits.allow_create_on_update
        self.allow_unconditional_update = traits.allow_unconditional_update
        self.return_deleted_object = traits.return_deleted_object
        self.counts_generation = bool(traits.generation)

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        check = names.path_segment if self._traits.names == "segment" else names.dns1123_subdomain
        return check(name, prefix=is_prefix)

    def prepare_for_create(self, ctx: Context, obj: Any) -> None:
        _forget_empty_lists(obj)
        if self._has_status:
            obj.status = type(obj)().status

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        _forget_empty_lists(obj)
        if self._has_status:
            obj.status = old.status

    def spec_of(self, obj: Any) -> Any:
        return [getattr(obj, field) for field in self._traits.generation]


class GenericStatusStrategy(StatusStrategy):
    def __init__(self, main: GenericStrategy, traits: Traits) -> None:
        super().__init__(main)
        self._keeps_metadata = traits.status_keeps_metadata

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        super().prepare_for_update(ctx, obj, old)
        if self._keeps_metadata:
            metadata.keep_all_but_managed_fields(obj.metadata, old.metadata)


def make_behaviour(resource: Resource) -> ResourceBehaviour:
    """Return the behavior of a built-in resource without a module of its own."""
    traits = traits_of(resource.group, resource.plural)
    has_status = resource.subresource("status") is not None
    strategy = GenericStrategy(traits, has_status=has_status)
    return ResourceBehaviour(
        strategy=strategy, views={"status": GenericStatusStrategy(strategy, traits)} if has_status else {}
    )
