"""Event of events.k8s.io: the same stored objects with stricter validation; only the series is mutable."""

from collections.abc import Iterable, Iterator

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.core_v1 import Event
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.events import EventStrategy
from sampan.apiserver.registry.strategy import Context

_FIXED = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count"),
    *("type", "eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
"""The immutable fields in the order of kube-apiserver."""
_SHOWN_AS = {"reportingComponent": "reportingController"}


class NewEventStrategy(EventStrategy):
    reporter = "reportingController"

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.dns1123_subdomain(name, prefix=is_prefix)

    def validate_create(self, ctx: Context, obj: Event) -> Iterable[FieldError]:
        yield from super().validate_create(ctx, obj)
        yield from _validate_series(obj)
        if obj.eventTime is None:
            yield FieldError.required("eventTime")
        if obj.type not in ("Normal", "Warning"):
            yield FieldError.invalid("type", "", f"has invalid value: {obj.type}")
        is_set = {
            "firstTimestamp": obj.firstTimestamp,
            "lastTimestamp": obj.lastTimestamp,
            "count": obj.count,
            "source": obj.source.component or obj.source.host,
        }
        yield from (FieldError.invalid(field, "", "needs to be unset") for field, value in is_set.items() if value)

    def validate_update(self, ctx: Context, obj: Event, old: Event) -> Iterable[FieldError]:
        yield from super().validate_update(ctx, obj, old)
        if obj.series != old.series:
            yield from _validate_series(obj)
        for field in _FIXED:
            value = getattr(obj, field)
            if value != getattr(old, field):
                yield FieldError.invalid(_SHOWN_AS.get(field, field), encode_error_value(value), "field is immutable")


def _validate_series(event: Event) -> Iterator[FieldError]:
    if event.series is None:
        return
    if event.series.count < 2:
        yield FieldError.invalid("series.count", "", "should be at least 2")
    if event.series.lastObservedTime is None:
        yield FieldError.required("series.lastObservedTime")


BEHAVIOR = ResourceBehavior(strategy=NewEventStrategy())
