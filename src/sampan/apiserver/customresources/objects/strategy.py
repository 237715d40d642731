"""The strategies of custom resources: objects are dicts with a schema, status may be a subresource, and the fields of
the scale are at paths that the definition declares
(`k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sampan.api.field_errors import NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID, FieldError
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.api.types.apiextensions_v1 import CustomResourceSubresourceScale
from sampan.api.unstructured import Unstructured
from sampan.apiserver.customresources.objects.custom_schema import CustomSchema
from sampan.apiserver.registry import deletion, metadata
from sampan.apiserver.registry.behavior import ResourceBehavior
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
        return self.validate(ctx, obj, None)

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        if self._has_status:
            _take_status(obj, old)

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return self.validate(ctx, obj, old)

    def validate(self, ctx: Context, obj: Unstructured, old: Unstructured | None) -> Iterable[FieldError]:
        """Yield the errors of an object, except those of its metadata. Rules that an unchanged value does not satisfy
        cause warnings."""
        if self._schema is None:
            return
        compiled = self._schema.compile()
        value, before = _value_to_validate(obj), _value_to_validate(old) if old is not None else None
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
            failures = compiled.validate_rules(value, before)
            ctx.warn_all(map(str, failures.warnings))
            yield from failures.errors

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
        return self._custom.validate(ctx, obj, old)


def _value_to_validate(obj: Unstructured) -> dict[str, Any]:
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


def make_custom_behavior(resource: Resource) -> ResourceBehavior:
    """Return the behavior of a custom resource that was registered without a definition."""
    strategy = CustomStrategy(resource=resource)
    return ResourceBehavior(strategy=strategy, views=status_views(resource, strategy))


def status_views(resource: Resource, strategy: CustomStrategy) -> dict[str, Strategy]:
    has_status = resource.subresource(_STATUS) is not None
    return {_STATUS: CustomStatusStrategy(strategy)} if has_status else {}


_MAX_REPLICAS = 2**31 - 1


class ScalePaths:
    """The fields of the scale in a custom object."""

    def __init__(self, scale: CustomResourceSubresourceScale) -> None:
        self.spec_path, self.status_path = scale.specReplicasPath, scale.statusReplicasPath
        self._spec, self._status = _parts(scale.specReplicasPath), _parts(scale.statusReplicasPath)
        self._selector = _parts(scale.labelSelectorPath) if scale.labelSelectorPath else []

    @property
    def managed_path(self) -> tuple[str, ...]:
        """The path of the replicas in managed fields."""
        return tuple(f"f:{part}" for part in self._spec)

    def replicas(self, content: dict[str, Any]) -> int | None:
        return _integer(_look_up_path(content, self._spec))

    def current_replicas(self, content: dict[str, Any]) -> int | None:
        return _integer(_look_up_path(content, self._status))

    def selector(self, content: dict[str, Any]) -> str:
        value = _look_up_path(content, self._selector) if self._selector else None
        return value if isinstance(value, str) else ""

    def set_replicas(self, content: dict[str, Any], replicas: int) -> None:
        """Set the replicas in a private copy of the content; the objects on the path are created."""
        *way, last = self._spec
        for part in way:
            below = content.get(part)
            content[part] = below = dict(below) if isinstance(below, dict) else {}
            content = below
        content[last] = replicas

    def validate(self, content: dict[str, Any]) -> Iterator[FieldError]:
        """Yield errors for replicas that no Scale can show."""
        for path, replicas in (
            (self.spec_path, self.replicas(content)),
            (self.status_path, self.current_replicas(content)),
        ):
            if replicas is not None and replicas < 0:
                yield FieldError.invalid(path, replicas, "should be a non-negative integer")
            elif replicas is not None and replicas > _MAX_REPLICAS:
                text = f"should be less than or equal to {_MAX_REPLICAS}"
                yield FieldError.invalid(path, replicas, text)


def _parts(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _look_up_path(value: Any, path: list[str]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
