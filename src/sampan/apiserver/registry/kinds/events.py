"""Event of the core group: a report about an object.

Events without an eventTime are validated by the old rules, others by those of events.k8s.io.
"""

from collections.abc import Iterable, Iterator

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import Event
from sampan.api.values import ages
from sampan.apiserver.registry import deletion
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import validate_qualified_name
from sampan.apiserver.tables import cells

_MAX_FIELD_LENGTH, _MAX_MESSAGE_LENGTH = 128, 1024
_NOT_MATCHING = "does not match event.namespace"


def _first_seen(event: Event, now: float) -> str:
    return ages.age(event.firstTimestamp or event.eventTime, now)


def _last_seen(event: Event, now: float) -> str:
    if event.series is not None:
        return ages.age(event.series.lastObservedTime, now)
    return ages.age(event.lastTimestamp, now) if event.lastTimestamp else _first_seen(event, now)


def _count(event: Event, now: float) -> int:
    return event.series.count if event.series is not None else event.count or 1


def _object(event: Event, now: float) -> str:
    involved_object = event.involvedObject
    return (
        f"{involved_object.kind.lower()}/{involved_object.name}"
        if involved_object.name
        else involved_object.kind.lower()
    )


def _source(event: Event, now: float) -> str:
    component = event.source.component or event.reportingComponent
    instance = event.source.host or event.reportingInstance
    return f"{component}, {instance}" if instance else component


_COLUMNS = (
    Column("Last Seen", _last_seen, field="lastTimestamp"),
    Column("Type", lambda event, now: event.type, field="type"),
    Column("Reason", lambda event, now: event.reason, field="reason"),
    Column("Object", _object, field="involvedObject"),
    Column("Subobject", lambda event, now: event.involvedObject.fieldPath, field="involvedObject.fieldPath", wide=True),
    Column("Source", _source, field="source", wide=True),
    Column("Message", lambda event, now: event.message.strip(), field="message"),
    Column("First Seen", _first_seen, field="firstTimestamp", wide=True),
    Column("Count", _count, field="count", wide=True),
    Column("Name", cells.name, format="name", field="metadata.name", wide=True),
)


class EventStrategy(Strategy):
    """`reporter` is the name of the reportingController field in this API version."""

    columns = _COLUMNS

    allow_create_on_update = True
    reporter = "reportingComponent"

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.path_segment(name, prefix=is_prefix)

    def validate_create(self, ctx: Context, obj: Event) -> Iterable[FieldError]:
        yield from _validate_event_namespace(obj) if obj.eventTime is None else _validate_new_event(obj, self.reporter)
        for text in names.dns1123_subdomain(obj.metadata.namespace):
            yield FieldError.invalid("namespace", obj.metadata.namespace, text)

    def validate_update(self, ctx: Context, obj: Event, old: Event) -> Iterable[FieldError]:
        return EventStrategy.validate_create(self, ctx, obj)

    def mark_deleted(
        self, ctx: Context, obj: Event, *, requested_s: int | None, policy: deletion.Policy, now: float
    ) -> deletion.DeletionAction:
        """Delete with the policy Background, whatever the client requests: events have no dependents."""
        return super().mark_deleted(ctx, obj, requested_s=requested_s, policy="Background", now=now)


def _validate_event_namespace(event: Event) -> Iterator[FieldError]:
    """Yield an error unless the event is in the namespace of its object, `default` for cluster-scoped objects."""
    namespace_of_object = event.involvedObject.namespace
    if event.metadata.namespace != (namespace_of_object or "default"):
        yield FieldError.invalid("involvedObject.namespace", namespace_of_object, _NOT_MATCHING)


def _validate_new_event(event: Event, reporter: str) -> Iterator[FieldError]:
    if not event.involvedObject.namespace and event.metadata.namespace not in ("default", "kube-system"):
        yield FieldError.invalid("involvedObject.namespace", "", _NOT_MATCHING)
    if not event.reportingComponent:
        yield FieldError.required(reporter)
    yield from validate_qualified_name(event.reportingComponent, reporter)
    for field in ("reportingInstance", "action", "reason"):
        value = getattr(event, field)
        if not value:
            yield FieldError.required(field)
        if names.size(value) > _MAX_FIELD_LENGTH:
            yield FieldError.invalid(field, "", f"can have at most {_MAX_FIELD_LENGTH} characters")
    if names.size(event.message) > _MAX_MESSAGE_LENGTH:
        yield FieldError.invalid("message", "", f"can have at most {_MAX_MESSAGE_LENGTH} characters")


BEHAVIOR = ResourceBehavior(strategy=EventStrategy())
