"""The suffix of the names of webhook configurations and policies in manifests, which the API reserves for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sampan.api.field_errors import FieldError
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors

GATE: Final = "ManifestBasedAdmissionControlConfig"
SUFFIX: Final = ".static.k8s.io"
_TEXT: Final = (
    f'names ending with "{SUFFIX}" are reserved for static manifest-based configurations and cannot be managed via the '
    "API"
)


class ReservedNamesStrategy(Strategy):
    """The base of the strategies of webhook configurations, policies and bindings."""

    def warnings(self, ctx: Context, obj: Any, old: Any | None) -> Iterable[str]:
        if obj.metadata.name.endswith(SUFFIX) and (old is not None or not ctx.is_enabled(GATE)):
            yield f"metadata.name: {_TEXT}"


def validate_new_name(ctx: Context, obj: Any) -> FieldErrors:
    """Yield an error for a new object with a reserved name."""
    if obj.metadata.name.endswith(SUFFIX) and ctx.is_enabled(GATE):
        yield FieldError.invalid("metadata.name", obj.metadata.name, _TEXT)
