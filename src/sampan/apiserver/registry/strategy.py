"""What a kind may say about itself; the base class is a kind with nothing special.

Order of a write, fixed by `Store`: default, (mutating admission), begin, prepare, (of an update) refusals, validate,
(validating admission), store. `default`, `begin` and `prepare_*` may change the object; `refusals` and `validate*` may
not, and return every fault they find, in field order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sampan.api import names
from sampan.apiserver.registry import deletion
from sampan.machinery.errors import FieldError

if TYPE_CHECKING:
    from sampan.apiserver.call import User
    from sampan.apiserver.registry.registry import Registry
    from sampan.machinery.worker_thread import WorkerThread

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Context:
    """What a strategy may know of the request that it serves."""

    registry: Registry
    user: User
    now: str
    """The present time as the API writes it."""
    namespace: str = ""
    dry_run: bool = False
    subresource: str = ""
    verb: str = ""
    """What the authorizers were asked for: update, patch; and in which version of the API."""
    version: str = ""
    warn: Callable[[str], None] = field(default=lambda _: None)
    has_enough_warnings: Callable[[], bool] = field(default=lambda: False)
    """Whether further warnings would be dropped."""
    worker: WorkerThread | None = None
    """Where the object is processed if it is large, so that it does not hold the event loop."""

    def warn_all(self, texts: Iterable[str]) -> None:
        """Add warnings, which are not computed any more once the response has no room for them."""
        for text in texts:
            self.warn(text)
            if self.has_enough_warnings():
                return

    async def compute(self, work: Callable[..., T], *args: Any) -> T:
        """The result of CPU-bound work on the object, in the worker thread if the object is large."""
        return work(*args) if self.worker is None else await self.worker.run(work, *args)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the kind's table. `value` gives the cell; `wide` columns show with -o wide only."""

    name: str
    value: Callable[[Any, float], Any]
    type: str = "string"
    format: str = ""
    wide: bool = False
    description: str = ""
    field: str = ""
    """The field that the column shows (`spec.nodeName`): where it has a published description, that one is told."""
    newer: str = ""
    """What the published description ends with and the real server, which tells that of an older version, does not."""


Finish = Callable[[bool], Awaitable[None]]
"""Called when a write is over, with whether it came to be."""


class Strategy:
    create_on_update = False
    """PUT of a missing name creates it."""
    unconditional_update = True
    """PUT without a resourceVersion overwrites; else it is refused."""
    returns_deleted = False
    """DELETE answers with the object instead of a Status."""
    default_policy: deletion.Policy = "Background"
    """What a DELETE that names no propagation policy does with the dependents."""
    validates_whole = False
    """An update is checked like a create as well, so that faults of the metadata are told once more."""
    metadata_last = False
    """Faults of the metadata of a new object are told only where there are no others."""
    counts_generation = False
    """metadata.generation starts at 1 and rises with each change of what `spec_of` gives."""
    columns: Sequence[Column] = ()

    def name_faults(self, name: str, is_prefix: bool) -> list[str]:
        """What is wrong with a name or, if `is_prefix`, with a generateName."""
        return names.dns1123_subdomain(name, prefix=is_prefix)

    def default(self, obj: Any) -> None:
        """Fill in what the client left out, as the published defaults say."""

    def prepare_create(self, ctx: Context, obj: Any) -> None:
        """Reset what a client may not set, take what must be taken."""

    def validate_create(self, ctx: Context, obj: Any) -> Iterable[FieldError]:
        return ()

    def prepare_update(self, ctx: Context, obj: Any, old: Any) -> None:
        """Bring back from `old` what this path may not change."""

    async def refusals(self, ctx: Context, obj: Any, old: Any) -> Sequence[FieldError]:
        """What stands in the way of an update because of who makes it: the authorizers may be asked. Told before the
        faults that `validate_update` finds."""
        return ()

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return ()

    def warnings(self, ctx: Context, obj: Any, old: Any | None) -> Iterable[str]:
        return ()

    def row_conditions(self, obj: Any) -> Sequence[Mapping[str, str]]:
        """What a table says of the object's row beside its cells."""
        return ()

    def table_order(self, obj: Any) -> Any:
        """What tables are sorted by; None where they show the order of names."""
        return None

    def spec_of(self, obj: Any) -> Any:
        """What must change for the generation to rise; compared with ==."""
        return getattr(obj, "spec", None)

    def delete_warnings(self, ctx: Context, options: deletion.DeleteOptions) -> Iterable[str]:
        return ()

    def check_delete(self, name: str) -> None:
        """Raise Forbidden for an object that may not be deleted by its name. Deletions of many do not ask."""

    def grace_s(self, ctx: Context, obj: Any, asked: int | None) -> int | None:
        """The grace of a first deletion, None for a kind that knows none; `asked` is what the client wants."""
        return None

    def mark_deleted(
        self, ctx: Context, obj: Any, *, asked_s: int | None, policy: deletion.Policy, now: float
    ) -> deletion.Fate:
        """Mark the object (in place) as being deleted, and say what becomes of it."""
        grace_s = self.grace_s(ctx, obj, asked_s)
        return deletion.mark(obj, grace_s=grace_s, asked_s=asked_s, policy=policy, now=now)

    def is_finished(self, obj: Any) -> bool:
        """Whether an object that was marked has nothing left to wait for, so that an update may remove it."""
        return deletion.is_finished(obj)

    async def begin(self, ctx: Context, obj: Any, old: Any | None) -> Finish | None:
        """Take what the object needs from the cluster (addresses, ports) and write it into the object, before it is
        prepared and checked. What is returned gives back, once the write is over, what was taken if it failed, and what
        is no longer needed if it did not. On a dry run nothing is taken."""
        return None

    async def release(self, ctx: Context, obj: Any) -> None:
        """The object is gone: give back what it held."""


class StatusStrategy(Strategy):
    """The status subresource: everything but the status (and, where the kind lets it, metadata) stays as it is."""

    def __init__(self, main: Strategy) -> None:
        self._main = main
        self.counts_generation = False
        self.unconditional_update = main.unconditional_update

    def default(self, obj: Any) -> None:
        self._main.default(obj)

    def prepare_update(self, ctx: Context, obj: Any, old: Any) -> None:
        if hasattr(old, "spec"):
            obj.spec = old.spec
