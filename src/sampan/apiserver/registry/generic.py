"""The behavior of kinds without rules of their own: the status is a subresource, and a few properties are options."""

from functools import cache
from typing import Any

import msgspec

from sampan.api.resource import Resource
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.strategy import Context, StatusStrategy, Strategy
from sampan.machinery.apply import Filter


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
    def __init__(
        self,
        *,
        has_status: bool,
        allow_create_on_update: bool = False,
        allow_unconditional_update: bool = True,
        return_deleted_object: bool = False,
        counts_generation: bool = False,
        reset_fields: Filter | None = None,
    ) -> None:
        self._has_status = has_status
        self.allow_create_on_update = allow_create_on_update
        self.allow_unconditional_update = allow_unconditional_update
        self.return_deleted_object = return_deleted_object
        self.counts_generation = counts_generation
        self.reset_fields = reset_fields

    def prepare_for_create(self, ctx: Context, obj: Any) -> None:
        _forget_empty_lists(obj)
        if self._has_status:
            obj.status = type(obj)().status

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        _forget_empty_lists(obj)
        if self._has_status:
            obj.status = old.status


class GenericStatusStrategy(StatusStrategy):
    def __init__(
        self, main: GenericStrategy, *, keeps_metadata: bool = False, reset_fields: Filter | None = None
    ) -> None:
        super().__init__(main)
        self.keeps_metadata, self.reset_fields = keeps_metadata, reset_fields


def status_behaviour(
    strategy: GenericStrategy, *, keeps_metadata: bool = False, reset_fields: Filter | None = None
) -> ResourceBehaviour:
    """Return the behavior of a kind with a status subresource, to which the options apply."""
    view = GenericStatusStrategy(strategy, keeps_metadata=keeps_metadata, reset_fields=reset_fields)
    return ResourceBehaviour(strategy=strategy, views={"status": view})


def make_behaviour(resource: Resource) -> ResourceBehaviour:
    """Return the behavior of a built-in resource without a module of its own."""
    has_status = resource.subresource("status") is not None
    strategy = GenericStrategy(has_status=has_status)
    return status_behaviour(strategy) if has_status else ResourceBehaviour(strategy=strategy)
