"""The behavior of custom resources: objects are dicts with a schema, and status may be a subresource."""

from typing import Any

from sampan.api.resource import Resource
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.strategy import Context, StatusStrategy, Strategy

_STATUS = "status"


class CustomStrategy(Strategy):
    allow_unconditional_update = False
    counts_generation = True

    def __init__(self, *, has_status: bool) -> None:
        self._has_status = has_status

    def prepare_for_create(self, ctx: Context, obj: Any) -> None:
        if self._has_status:
            obj.content.pop(_STATUS, None)

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        if self._has_status:
            _take_status(obj, old)

    def spec_of(self, obj: Any) -> Any:
        """Return everything but the metadata, and but the status if that is a subresource."""
        if not self._has_status:
            return obj.content
        return {field: value for field, value in obj.content.items() if field != _STATUS}


class CustomStatusStrategy(StatusStrategy):
    keeps_metadata = True

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        content = dict(old.content)
        if _STATUS in obj.content:
            content[_STATUS] = obj.content[_STATUS]
        else:
            content.pop(_STATUS, None)
        obj.content = content
        metadata.keep_all_but_managed_fields(obj.metadata, old.metadata)


def _take_status(obj: Any, source: Any) -> None:
    if _STATUS in source.content:
        obj.content[_STATUS] = source.content[_STATUS]
    else:
        obj.content.pop(_STATUS, None)


def make_behaviour(resource: Resource) -> ResourceBehaviour:
    has_status = resource.subresource(_STATUS) is not None
    strategy = CustomStrategy(has_status=has_status)
    return ResourceBehaviour(strategy=strategy, views={_STATUS: CustomStatusStrategy(strategy)} if has_status else {})
