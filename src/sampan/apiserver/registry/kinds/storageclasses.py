"""StorageClass: a named type of storage and its provisioner."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import TopologySelectorLabelRequirement, TopologySelectorTerm
from sampan.api.types.storage_v1 import StorageClass
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.podspec.formats import Faults, fixed, optional_one_of, qualified, repeated
from sampan.apiserver.registry.podspec.warnings import DEPRECATED_NODE_LABELS
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.volumes.classes import is_default
from sampan.apiserver.registry.volumes.parameters import driver_faults, parameter_faults
from sampan.apiserver.tables.columns import AGE, NAME

_POLICIES, _MODES = ("Delete", "Retain"), ("Immediate", "WaitForFirstConsumer")
_FIXED = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


class StorageClassStrategy(Strategy):
    returns_deleted = True
    validates_whole = True

    def default(self, obj: StorageClass) -> None:
        if obj.reclaimPolicy is None:
            obj.reclaimPolicy = "Delete"
        if obj.volumeBindingMode is None:
            obj.volumeBindingMode = "Immediate"

    def validate_create(self, ctx: Context, obj: StorageClass) -> Iterable[FieldError]:
        yield from driver_faults(obj.provisioner, "provisioner")
        yield from parameter_faults(obj.parameters, "parameters")
        yield from optional_one_of(obj.reclaimPolicy or None, _POLICIES, "reclaimPolicy")
        yield from optional_one_of(obj.volumeBindingMode, _MODES, "volumeBindingMode")
        yield from _topology_faults(obj.allowedTopologies, "allowedTopologies")

    def validate_update(self, ctx: Context, obj: StorageClass, old: StorageClass) -> Iterable[FieldError]:
        yield from self.validate_create(ctx, obj)
        for field in _FIXED:
            yield from fixed(getattr(obj, field), getattr(old, field), field)

    def warnings(self, ctx: Context, obj: StorageClass, old: StorageClass | None) -> Iterable[str]:
        for index, term in enumerate(obj.allowedTopologies):
            for expression_index, expression in enumerate(term.matchLabelExpressions):
                if expression.key in DEPRECATED_NODE_LABELS:
                    at = f"allowedTopologies[{index}].matchLabelExpressions[{expression_index}].key"
                    yield f"{at}: {DEPRECATED_NODE_LABELS[expression.key]}"


def _topology_faults(terms: Sequence[TopologySelectorTerm], at: str) -> Faults:
    counts: Counter[frozenset[tuple[str, frozenset[str]]]] = Counter()
    for index, term in enumerate(terms):
        path = f"{at}[{index}].matchLabelExpressions"
        yield from _expression_faults(term.matchLabelExpressions, path)
        values = {expression.key: frozenset(expression.values or ()) for expression in term.matchLabelExpressions}
        places = frozenset(values.items())
        for _ in range(counts[places]):
            yield FieldError.duplicate(path, "")
        counts[places] += 1


def _expression_faults(expressions: Sequence[TopologySelectorLabelRequirement], at: str) -> Faults:
    keys: set[str] = set()
    for index, expression in enumerate(expressions):
        path, values = f"{at}[{index}]", set[str]()
        if not expression.values:
            yield FieldError.required(f"{path}.values")
        for value_index, value in enumerate(expression.values or ()):
            yield from repeated(value, values, f"{path}.values[{value_index}]")
        yield from qualified(expression.key, f"{path}.key")
        yield from repeated(expression.key, keys, f"{path}.key")


def _name(found: StorageClass, now: float) -> str:
    name = found.metadata.name
    return f"{name} (default)" if is_default(found.metadata) else name


StorageClassStrategy.columns = (
    Column("Name", _name, format="name", field=NAME.field),
    Column("Provisioner", lambda found, now: found.provisioner, field="provisioner"),
    Column("ReclaimPolicy", lambda found, now: found.reclaimPolicy or "Delete", field="reclaimPolicy"),
    Column("VolumeBindingMode", lambda found, now: found.volumeBindingMode or "Immediate", field="volumeBindingMode"),
    Column("AllowVolumeExpansion", lambda found, now: bool(found.allowVolumeExpansion), field="allowVolumeExpansion"),
    AGE,
)

BEHAVIOUR = ResourceBehaviour(strategy=StorageClassStrategy())
