"""CSIStorageCapacity: the available capacity of a storage class in a part of the cluster."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.storage_v1 import CSIStorageCapacity
from sampan.api.values.quantity import parse
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.warnings import DEPRECATED_NODE_LABELS
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import (
    IMMUTABLE,
    NEGATIVE,
    FieldErrors,
    validate_dns_subdomain,
    validate_immutable,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import NAME


class CSIStorageCapacityStrategy(Strategy):
    allow_unconditional_update = False
    columns = (
        NAME,
        Column("StorageClassName", lambda capacity, now: capacity.storageClassName, field="storageClassName"),
        Column("Capacity", lambda capacity, now: capacity.capacity or cells.UNSET, field="capacity"),
    )

    def validate_create(self, ctx: Context, obj: CSIStorageCapacity) -> Iterable[FieldError]:
        return _validate_csi_storage_capacity(obj)

    def validate_update(self, ctx: Context, obj: CSIStorageCapacity, old: CSIStorageCapacity) -> Iterable[FieldError]:
        yield from _validate_csi_storage_capacity(obj, allow_bad_values=bool(selector_errors(old.nodeTopology, "")))
        if obj.nodeTopology != old.nodeTopology:
            yield FieldError.invalid("nodeTopology", obj.nodeTopology, IMMUTABLE)
        yield from validate_immutable(obj.storageClassName, old.storageClassName, "storageClassName")

    def warnings(self, ctx: Context, obj: CSIStorageCapacity, old: CSIStorageCapacity | None) -> Iterable[str]:
        topology = obj.nodeTopology
        if topology is None:
            return
        for index, expression in enumerate(topology.matchExpressions):
            if expression.key in DEPRECATED_NODE_LABELS:
                text = f"{expression.key} is {DEPRECATED_NODE_LABELS[expression.key]}"
                yield f"nodeTopology.matchExpressions[{index}].key: {text}"
        for label in sorted(topology.matchLabels.keys() & DEPRECATED_NODE_LABELS.keys()):
            yield f"nodeTopology.matchLabels.{label}: {DEPRECATED_NODE_LABELS[label]}"


def _validate_csi_storage_capacity(capacity: CSIStorageCapacity, *, allow_bad_values: bool = False) -> FieldErrors:
    yield from selector_errors(capacity.nodeTopology, "nodeTopology", allow_bad_values=allow_bad_values)
    yield from validate_dns_subdomain(capacity.storageClassName, "storageClassName")
    if capacity.capacity is not None and parse(capacity.capacity).sign < 0:
        yield FieldError.invalid("capacity", capacity.capacity, NEGATIVE)


BEHAVIOR = ResourceBehavior(strategy=CSIStorageCapacityStrategy())
