"""What a kind may say about itself; the base class is a kind with nothing special.

Order of a write, fixed by `Store`: default, (mutating admission), prepare, validate, (validating admission), store.
`default` and `prepare_*` may change the object; `validate*` may not, and return every fault they find, in field order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sampan.api import names
from sampan.machinery.errors import FieldError

if TYPE_CHECKING:
    from sampan.apiserver.call import User
    from sampan.apiserver.registry.registry import Registry


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
    warn: Callable[[str], None] = field(default=lambda _: None)


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


Undo = Callable[[], Awaitable[None]]


class Strategy:
    create_on_update = False
    """PUT of a missing name creates it."""
    unconditional_update = True
    """PUT without a resourceVersion overwrites; else it is refused."""
    returns_deleted = False
    """DELETE answers with the object instead of a Status."""
    orphans_by_default = False
    """A DELETE that names no propagation policy leaves the dependents."""
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

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return ()

    def warnings(self, ctx: Context, obj: Any, old: Any | None) -> Iterable[str]:
        return ()

    def spec_of(self, obj: Any) -> Any:
        """What must change for the generation to rise; compared with ==."""
        return getattr(obj, "spec", None)

    def grace_s(self, ctx: Context, obj: Any, asked: int | None) -> int | None:
        """The grace of a deletion, None for a kind that knows none; `asked` is what the client wants."""
        return None

    async def begin(self, ctx: Context, obj: Any, old: Any | None) -> Undo | None:
        """Take what the object needs from the cluster (addresses, ports) once it is known to be valid and before it is
        stored. What is returned gives it back if the write fails."""
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
