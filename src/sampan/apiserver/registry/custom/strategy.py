"""The strategies of custom resources: objects are dicts with a schema, and status may be a subresource."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api.field_errors import NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID, FieldError
from sampan.api.go_compat import gotext
from sampan.api.resource import Resource
from sampan.api.unstructured import Unstructured
from sampan.apiserver.registry import deletion, metadata
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.custom.custom_schema import CustomSchema
from sampan.apiserver.registry.custom.scale import ScalePaths
from sampan.apiserver.registry.strategy import Column, Context, FinishFunc, StatusStrategy, Strategy
from sampan.machinery import errors

_STATUS = "status"
_BLOCKING = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})
"""Errors after which the rules of the schema are not evaluated, because they rely on the types and sizes of values."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_STANDARD_FINALIZERS = (deletion.ORPHAN, deletion.FOREGROUND)


class CustomStrategy(Strategy):
    allow_unconditional_update = False
    counts_generation = True
    needs_qualified_finalizers = False

    def __init__(
        self,
        *,
        resource: Resource,
        columns: Sequence[Column] = (),
        schema: CustomSchema | None = None,
        scale: ScalePaths | None = None,
        is_terminating: bool = False,
    ) -> None:
        self._resource, self._has_status = resource, resource.subresource(_STATUS) is not None
        self.columns, self._schema, self._scale = columns, schema, scale
        self._is_terminating = is_terminating

    async def begin_write(self, ctx: Context, obj: Any, old: Any | None) -> FinishFunc | None:
        if old is None and self._is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(self._resource.plural, obj.metadata.name, why, group=self._resource.group)
        return None

    def prepare_for_create(self, ctx: Context, obj: Any) -> None:
        if self._has_status:
            obj.content.pop(_STATUS, None)

    def validate_create(self, ctx: Context, obj: Any) -> Iterable[FieldError]:
        return self.validate(obj, None)

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        if self._has_status:
            _take_status(obj, old)

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return self.validate(obj, old)

    def validate(self, obj: Unstructured, old: Unstructured | None) -> Iterable[FieldError]:
        """Yield the errors of an object, but those of its metadata."""
        if self._schema is None:
            return
        compiled = self._schema.compile()
        value, before = _validated_value(obj), _validated_value(old) if old is not None else None
        field_errors = list(compiled.validate(value, before))
        if self._scale is not None:
            field_errors += self._scale.validate(obj.content)
        field_errors += compiled.validate_invariants(value, before)
        yield from field_errors
        if not compiled.has_rules:
            return
        if any(error.type in _BLOCKING for error in field_errors):
            yield FieldError.invalid("<nil>", None, _UNCHECKED)
        else:
            yield from compiled.validate_rules(value, before)

    def warnings(self, ctx: Context, obj: Any, old: Any | None) -> Iterable[str]:
        before = old.metadata.finalizers if old is not None else ()
        for finalizer in sorted({*obj.metadata.finalizers} - {*before, *_STANDARD_FINALIZERS}):
            if "/" not in finalizer:
                advice = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer"
                yield f"metadata.finalizers: {gotext.quote(finalizer)}: {advice} writers"

    def spec_of(self, obj: Any) -> Any:
        """Return everything but the metadata, and but the status if that is a subresource."""
        if not self._has_status:
            return obj.content
        return {field: value for field, value in obj.content.items() if field != _STATUS}


class CustomStatusStrategy(StatusStrategy):
    keeps_metadata = True

    def __init__(self, main: CustomStrategy) -> None:
        super().__init__(main)
        self._custom = main

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        content = dict(old.content)
        if _STATUS in obj.content:
            content[_STATUS] = obj.content[_STATUS]
        else:
            content.pop(_STATUS, None)
        obj.content = content
        metadata.keep_all_but_managed_fields(obj.metadata, old.metadata)

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return self._custom.validate(obj, old)


def _validated_value(obj: Unstructured) -> dict[str, Any]:
    """Return the object as schemas see it: of its metadata they can only restrict the names."""
    meta = {"name": obj.metadata.name}
    if obj.metadata.generateName:
        meta["generateName"] = obj.metadata.generateName
    return {"apiVersion": obj.apiVersion, "kind": obj.kind, "metadata": meta, **obj.content}


def _take_status(obj: Any, source: Any) -> None:
    if _STATUS in source.content:
        obj.content[_STATUS] = source.content[_STATUS]
    else:
        obj.content.pop(_STATUS, None)


def make_behaviour(resource: Resource) -> ResourceBehaviour:
    """Return the behavior of a custom resource that was registered without a definition."""
    strategy = CustomStrategy(resource=resource)
    return ResourceBehaviour(strategy=strategy, views=status_views(resource, strategy))


def status_views(resource: Resource, strategy: CustomStrategy) -> dict[str, Strategy]:
    has_status = resource.subresource(_STATUS) is not None
    return {_STATUS: CustomStatusStrategy(strategy)} if has_status else {}
