"""Namespace, which is deleted in two steps.

A deletion sets the deletionTimestamp and the phase Terminating. The object is removed by the update that removes the
last finalizer of its spec, after the content of the namespace is deleted.
"""

from collections.abc import Iterable, Iterator

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import Namespace, NamespaceStatus
from sampan.api.values import times
from sampan.apiserver.registry import deletion
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import validate_qualified_name
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery.apply import ExcludedFieldsFilter

ACTIVE, TERMINATING = "Active", "Terminating"
_FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    return_deleted_object = True
    columns = (
        NAME,
        Column("Status", lambda namespace, now: namespace.status.phase, description="The status of the namespace"),
        AGE,
    )

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.dns1123_label(name, prefix=is_prefix)

    def default(self, obj: Namespace) -> None:
        if obj.metadata.name:
            obj.metadata.labels[_NAME_LABEL] = obj.metadata.name

    def prepare_for_create(self, ctx: Context, obj: Namespace) -> None:
        obj.status = NamespaceStatus(phase=ACTIVE)
        if _FINALIZER not in obj.spec.finalizers:
            obj.spec.finalizers.append(_FINALIZER)
        self.default(obj)  # a generated name is only known now

    def validate_create(self, ctx: Context, obj: Namespace) -> Iterable[FieldError]:
        return [error for name in obj.spec.finalizers for error in _validate_finalizer(name, "spec.finalizers")]

    def prepare_for_update(self, ctx: Context, obj: Namespace, old: Namespace) -> None:
        obj.spec.finalizers = old.spec.finalizers
        obj.status = old.status

    def mark_deleted(
        self, ctx: Context, obj: Namespace, *, requested_s: int | None, policy: deletion.Policy, now: float
    ) -> deletion.DeletionAction:
        meta = obj.metadata
        if meta.deletionTimestamp is not None:
            if obj.spec.finalizers:
                return deletion.DeletionAction.NONE
            return super().mark_deleted(ctx, obj, requested_s=requested_s, policy=policy, now=now)
        meta.deletionTimestamp = times.format_time(now)
        meta.finalizers = deletion.finalizers_for(policy, meta.finalizers)
        obj.status.phase = TERMINATING
        return deletion.DeletionAction.MARK

    def is_finished(self, obj: Namespace) -> bool:
        return not obj.spec.finalizers and super().is_finished(obj)


class NamespaceStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: Namespace, old: Namespace) -> Iterable[FieldError]:
        is_deleted = obj.metadata.deletionTimestamp is not None
        phase, when = (TERMINATING, "not empty") if is_deleted else (ACTIVE, "empty")
        if obj.status.phase != phase:
            text = f"may only be '{phase}' if `deletionTimestamp` is {when}"
            yield FieldError.invalid("status.Phase", obj.status.phase, text)


class FinalizeStrategy(StatusStrategy):
    reset_fields = ExcludedFieldsFilter("status")

    def prepare_for_update(self, ctx: Context, obj: Namespace, old: Namespace) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: Namespace, old: Namespace) -> Iterable[FieldError]:
        for index, name in enumerate(obj.spec.finalizers):
            yield from _validate_finalizer(name, f"spec.finalizers[{index}]")


def _validate_finalizer(name: str, path: str) -> Iterator[FieldError]:
    yield from validate_qualified_name(name, path)
    if "/" not in name and name not in (_FINALIZER, deletion.ORPHAN, deletion.FOREGROUND):
        yield FieldError.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")


_strategy = NamespaceStrategy()
BEHAVIOR = ResourceBehavior(
    strategy=_strategy,
    views={"status": NamespaceStatusStrategy(_strategy), "finalize": FinalizeStrategy(_strategy)},
)
