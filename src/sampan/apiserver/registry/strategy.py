"""The strategy of a kind; the base class is a kind without special behavior.

`Store` fixes the order of a write: default, (mutating admission), begin_write, prepare_for_*, validate_permissions
(updates only), validate_*, the validation tags of the type (`declarative`), (validating admission), store. `default`,
`begin_write` and `prepare_for_*` may change the object; `validate_*` must not, and returns all errors in field order.
The counterparts are `RESTCreateStrategy`, `RESTUpdateStrategy` and `RESTDeleteStrategy` of
`k8s.io/apiserver/pkg/registry/rest`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.apiserver.registry import deletion, metadata

if TYPE_CHECKING:
    from sampan.apiserver.registry.strategy_services import StrategyServices
    from sampan.apiserver.request.call import UserInfo
    from sampan.machinery.apply import FieldFilter
    from sampan.machinery.fair_worker import UserWorker

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Context:
    """The attributes of a request that a strategy may use."""

    services: StrategyServices
    user: UserInfo
    now: str
    """The current time in the format of the API."""
    namespace: str = ""
    dry_run: bool = False
    subresource: str = ""
    verb: str = ""
    """The verb that was authorized (update, patch); `version` is the API version of the request."""
    version: str = ""
    warn: Callable[[str], None] = field(default=lambda _: None)
    has_enough_warnings: Callable[[], bool] = field(default=lambda: False)
    """Whether further warnings would be dropped."""
    worker: UserWorker | None = None
    """The share of the user in the thread that processes a large object, so that it does not block the event loop."""

    def is_enabled(self, gate: str) -> bool:
        """Tell whether a feature gate is on."""
        return self.services.feature_gates.is_enabled(gate)

    def warn_all(self, texts: Iterable[str]) -> None:
        """Add warnings until the response has no room for more; the rest is not computed."""
        for text in texts:
            self.warn(text)
            if self.has_enough_warnings():
                return

    async def compute(self, work: Callable[..., T], *args: Any) -> T:
        """Return the result of CPU-bound work on the object, in the worker thread if the object is large."""
        return work(*args) if self.worker is None else await self.worker.run(work, *args)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the kind's table. `value` returns the cell; `wide` columns are shown with -o wide only."""

    name: str
    value: Callable[[Any, float], Any]
    type: str = "string"
    format: str = ""
    wide: bool = False
    description: str = ""
    field: str = ""
    """The field that the column shows (`spec.nodeName`), whose description in the API documentation is then used."""
    newer: str = ""
    """The end of the published description that kube-apiserver omits, as it prints the text of an older version."""
    priority: int | None = None
    """The priority in the column definition; by default 1 for a wide column and 0 for others."""


FinishFunc = Callable[[bool], Awaitable[None]]
"""Called at the end of a write with whether it succeeded."""


class Strategy:
    allow_create_on_update = False
    """Whether a PUT to a name that does not exist creates the object."""
    allow_unconditional_update = True
    """Whether a PUT without a resourceVersion overwrites the object; otherwise it is rejected."""
    lenient_versions: frozenset[str] = frozenset()
    """Older API versions through which an object may be overwritten without a resourceVersion and DELETE returns it."""
    return_deleted_object = False
    """Whether DELETE returns the object instead of a Status."""
    default_garbage_collection_policy: deletion.Policy = "Background"
    """What happens to the dependents if a DELETE has no propagation policy."""
    validates_immutable_parts = True
    """Whether the parts below an immutable field that was changed are validated nevertheless."""
    metadata_last = False
    """Whether errors in the metadata of a new object are reported only if there are no others."""
    counts_generation = False
    """Whether metadata.generation starts at 1 and increases with each change of the value of `spec_of`."""
    needs_qualified_finalizers = True
    """Whether finalizers must be standard or fully qualified names."""
    has_name_tag = False
    """Whether a validation tag of the kind validates the name."""
    has_expressions = False
    """Whether objects of the kind contain CEL expressions, which validation compiles."""
    reset_fields: FieldFilter | None = None
    """The filter of the fields that a manager may own through this path, for a path that resets other fields than its
    counterparts of most kinds (`ResourceBehavior.reset_fields`); the counterpart is `GetResetFields`."""
    columns: Sequence[Column] = ()

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        """Return the errors of a name or, if `is_prefix`, of a generateName."""
        if self.has_name_tag and not is_prefix:
            return []
        return names.dns1123_subdomain(name, prefix=is_prefix)

    def default(self, obj: Any) -> None:
        """Set the default values of fields that the client left out."""

    def prepare_for_create(self, ctx: Context, obj: Any) -> None:
        """Reset the fields that a client may not set."""

    def validate_create(self, ctx: Context, obj: Any) -> Iterable[FieldError]:
        return ()

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        """Restore from `old` the fields that this endpoint may not change."""

    async def validate_permissions(self, ctx: Context, obj: Any, old: Any) -> Sequence[FieldError]:
        """Return errors that depend on who makes the update; this may ask the authorizers.

        They are reported before those of `validate_update`.
        """
        return ()

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return ()

    def declarative_options(self, ctx: Context, old: Any) -> Callable[[str], bool]:
        """Return the function that tells which options of the validation tags are on for an update of `old`."""
        return ctx.is_enabled

    def warnings(self, ctx: Context, obj: Any, old: Any | None) -> Iterable[str]:
        return ()

    def row_conditions(self, obj: Any) -> Sequence[Mapping[str, str]]:
        """Return the conditions of the object's row in a table."""
        return ()

    def table_order(self, obj: Any) -> Any:
        """Return the sort key of table rows; None to sort them by name."""
        return None

    def list_columns(self, objs: Iterable[Any]) -> Sequence[Column]:
        """Return the columns of the table of a list, for a kind whose rows depend on each other."""
        return self.columns

    def spec_of(self, obj: Any) -> Any:
        """Return the part of the object whose change increases the generation; compared with ==."""
        return getattr(obj, "spec", None)

    def delete_warnings(self, ctx: Context, options: deletion.DeleteOptions) -> Iterable[str]:
        return ()

    def check_delete(self, name: str) -> None:
        """Raise Forbidden for an object that may not be deleted by name. Collection deletes skip this check."""

    def grace_s(self, ctx: Context, obj: Any, requested_s: int | None) -> int | None:
        """Return the grace period of a first deletion, None for a kind without graceful deletion.

        `requested_s` is the grace period in the client's request."""
        return None

    def mark_deleted(
        self, ctx: Context, obj: Any, *, requested_s: int | None, policy: deletion.Policy, now: float
    ) -> deletion.DeletionAction:
        """Mark the object (in place) as deleted, and return what happens to it."""
        grace_s = self.grace_s(ctx, obj, requested_s)
        return deletion.mark(obj, grace_s=grace_s, requested_s=requested_s, policy=policy, now=now)

    def is_finished(self, obj: Any) -> bool:
        """Whether an update may remove an object that is marked as deleted, because nothing delays it any more."""
        return deletion.is_finished(obj)

    async def begin_write(self, ctx: Context, obj: Any, old: Any | None) -> FinishFunc | None:
        """Allocate what the object needs from the cluster (addresses, ports) and write it into the object.

        This runs before preparation and validation. The returned function is called at the end of the write: it
        releases the new allocations if the write failed, and those that are no longer needed if it succeeded. A dry run
        allocates nothing.
        """
        return None

    async def after_delete(self, ctx: Context, obj: Any) -> None:
        """Release the allocations of an object that was removed."""


class StatusStrategy(Strategy):
    """The strategy of the status subresource, which changes the status and, unless `keeps_metadata`, the metadata."""

    keeps_metadata = False
    """Whether an update leaves the metadata but for managedFields unchanged, as `ResetObjectMetaForStatus` does."""

    def __init__(self, main: Strategy) -> None:
        self._main = main
        self.counts_generation = False
        self.allow_unconditional_update = main.allow_unconditional_update
        self.lenient_versions = main.lenient_versions

    def default(self, obj: Any) -> None:
        self._main.default(obj)

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        if hasattr(old, "spec"):
            obj.spec = old.spec
        if self.keeps_metadata:
            metadata.keep_all_but_managed_fields(obj.metadata, old.metadata)
