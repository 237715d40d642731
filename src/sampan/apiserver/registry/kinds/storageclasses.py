"""StorageClass: a named type of storage and its provisioner."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import TopologySelectorLabelRequirement, TopologySelectorTerm
from sampan.api.types.storage_v1 import StorageClass
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.warnings import DEPRECATED_NODE_LABELS
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_optional_one_of,
    validate_qualified_name,
    validate_unique,
)
from sampan.apiserver.registry.volumes.classes import validate_parameter, validate_provisioner
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery.volumes import default_of

_POLICIES, _MODES = ("Delete", "Retain"), ("Immediate", "WaitForFirstConsumer")


_COLUMNS = (
    NAME,
    Column("Provisioner", lambda storage_class, now: storage_class.provisioner, field="provisioner"),
    Column("ReclaimPolicy", lambda storage_class, now: storage_class.reclaimPolicy or "Delete", field="reclaimPolicy"),
    Column(
        "VolumeBindingMode",
        lambda storage_class, now: storage_class.volumeBindingMode or "Immediate",
        field="volumeBindingMode",
    ),
    Column(
        "AllowVolumeExpansion",
        lambda storage_class, now: bool(storage_class.allowVolumeExpansion),
        field="allowVolumeExpansion",
    ),
    AGE,
)


def _mark(name: str, default_name: str) -> str:
    return f"{name} (default)" if name == default_name else name


class StorageClassStrategy(Strategy):
    columns = _COLUMNS
    return_deleted_object = True

    def list_columns(self, objs: Iterable[StorageClass]) -> Sequence[Column]:
        """Mark the default class, which only a list can tell: of several, it is the newest."""
        default_class = default_of(objs)
        if default_class is None:
            return self.columns
        name = default_class.metadata.name
        marked = replace(NAME, value=lambda storage_class, now: _mark(storage_class.metadata.name, name))
        return (marked, *self.columns[1:])

    def default(self, obj: StorageClass) -> None:
        if obj.reclaimPolicy is None:
            obj.reclaimPolicy = "Delete"
        if obj.volumeBindingMode is None:
            obj.volumeBindingMode = "Immediate"

    def validate_create(self, ctx: Context, obj: StorageClass) -> Iterable[FieldError]:
        if obj.provisioner:
            yield from validate_provisioner(obj.provisioner, "provisioner")
        yield from validate_parameter(obj.parameters, "parameters")
        yield from validate_optional_one_of(obj.reclaimPolicy or None, _POLICIES, "reclaimPolicy")
        yield from validate_optional_one_of(obj.volumeBindingMode, _MODES, "volumeBindingMode")
        yield from _validate_topology(obj.allowedTopologies, "allowedTopologies")

    def validate_update(self, ctx: Context, obj: StorageClass, old: StorageClass) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)

    def warnings(self, ctx: Context, obj: StorageClass, old: StorageClass | None) -> Iterable[str]:
        for index, term in enumerate(obj.allowedTopologies):
            for expression_index, expression in enumerate(term.matchLabelExpressions):
                if expression.key in DEPRECATED_NODE_LABELS:
                    path = f"allowedTopologies[{index}].matchLabelExpressions[{expression_index}].key"
                    yield f"{path}: {DEPRECATED_NODE_LABELS[expression.key]}"


def _validate_topology(terms: Sequence[TopologySelectorTerm], field_path: str) -> FieldErrors:
    counts: Counter[frozenset[tuple[str, frozenset[str]]]] = Counter()
    for index, term in enumerate(terms):
        path = f"{field_path}[{index}].matchLabelExpressions"
        yield from _validate_expression(term.matchLabelExpressions, path)
        values = {expression.key: frozenset(expression.values or ()) for expression in term.matchLabelExpressions}
        places = frozenset(values.items())
        for _ in range(counts[places]):
            yield FieldError.duplicate(path, "")
        counts[places] += 1


def _validate_expression(expressions: Sequence[TopologySelectorLabelRequirement], field_path: str) -> FieldErrors:
    keys: set[str] = set()
    for index, expression in enumerate(expressions):
        path, values = f"{field_path}[{index}]", set[str]()
        if not expression.values:
            yield FieldError.required(f"{path}.values")
        for value_index, value in enumerate(expression.values or ()):
            yield from validate_unique(value, values, f"{path}.values[{value_index}]")
        yield from validate_qualified_name(expression.key, f"{path}.key")
        yield from validate_unique(expression.key, keys, f"{path}.key")


BEHAVIOR = ResourceBehavior(strategy=StorageClassStrategy())
