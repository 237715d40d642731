"""ControllerRevision: a snapshot of state to which a controller can roll back."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.types.apps_v1 import ControllerRevision
from sampan.api.values.scalars import RawJSON
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import validate_non_negative
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME


def _controller(revision: ControllerRevision, now: float) -> str:
    owner = next((owner for owner in revision.metadata.ownerReferences if owner.controller), None)
    if owner is None:
        return cells.NONE
    group = owner.apiVersion.rpartition("/")[0]
    kind = f"{owner.kind}.{group}" if group else owner.kind
    return f"{kind.lower()}/{owner.name}"


_COLUMNS = (
    NAME,
    Column("Controller", _controller, description="Controller of the object"),
    Column("Revision", lambda revision, now: revision.revision, field="revision"),
    AGE,
)


class ControllerRevisionStrategy(Strategy):
    columns = _COLUMNS

    def default(self, obj: ControllerRevision) -> None:
        obj.data = RawJSON(gotext.compact_json(obj.data))

    def validate_create(self, ctx: Context, obj: ControllerRevision) -> Iterable[FieldError]:
        yield from validate_non_negative(obj.revision, "revision")
        if bytes(obj.data) == b"null":
            yield FieldError.required("data", "data is mandatory")
        elif not bytes(obj.data).startswith(b"{"):
            yield FieldError.required("data", "data must be a valid JSON object")

    def validate_update(self, ctx: Context, obj: ControllerRevision, old: ControllerRevision) -> Iterable[FieldError]:
        yield from validate_non_negative(obj.revision, "revision")
        if bytes(obj.data) != gotext.compact_json(old.data):
            yield FieldError.invalid("data", obj.data, "field is immutable")


BEHAVIOR = ResourceBehavior(strategy=ControllerRevisionStrategy())
