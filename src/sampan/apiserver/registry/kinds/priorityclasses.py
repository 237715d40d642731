"""PriorityClass: maps a name to an immutable priority."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.scheduling_v1 import PriorityClass
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery.errors import forbidden

MAX_USER_PRIORITY = 1_000_000_000
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(Strategy):
    columns = (
        NAME,
        Column("Value", lambda priority_class, _: priority_class.value, type="integer", field="value"),
        Column(
            "Global-Default",
            lambda priority_class, _: priority_class.globalDefault,
            type="boolean",
            field="globalDefault",
        ),
        AGE,
        Column(
            "PreemptionPolicy",
            lambda priority_class, _: priority_class.preemptionPolicy or "",
            field="preemptionPolicy",
        ),
    )

    def default(self, obj: PriorityClass) -> None:
        if obj.preemptionPolicy is None:
            obj.preemptionPolicy = "PreemptLowerPriority"

    def prepare_for_create(self, ctx: Context, obj: PriorityClass) -> None:
        obj.metadata.generation = 1

    def validate_create(self, ctx: Context, obj: PriorityClass) -> Iterable[FieldError]:
        if obj.metadata.name.startswith("system-"):
            if why := _unknown_to_the_system(obj):
                text = "priority class names with 'system-' prefix are reserved for system use only"
                yield FieldError.forbidden("metadata.name", f"{text}. error: {why}")
        elif obj.value > MAX_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
            yield FieldError.forbidden("value", text)
        policy = obj.preemptionPolicy
        if policy == "":
            yield FieldError.required("preemptionPolicy")
        elif policy is not None and policy not in _POLICIES:
            yield FieldError.not_supported("preemptionPolicy", policy, _POLICIES)

    def check_delete(self, name: str) -> None:
        if name in SYSTEM:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden("priorityclasses", name, why, group="scheduling.k8s.io")

    def validate_update(self, ctx: Context, obj: PriorityClass, old: PriorityClass) -> Iterable[FieldError]:
        if obj.value != old.value:
            yield FieldError.forbidden("value", "may not be changed in an update.")
        if obj.preemptionPolicy != old.preemptionPolicy:
            yield FieldError.invalid("preemptionPolicy", obj.preemptionPolicy, "field is immutable")


def _unknown_to_the_system(priority_class: PriorityClass) -> str:
    name = priority_class.metadata.name
    if name not in SYSTEM:
        return f"{name} is not a known system priority class"
    if priority_class.value != SYSTEM[name]:
        return f"value of {name} PriorityClass must be {SYSTEM[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if priority_class.globalDefault else ""


BEHAVIOR = ResourceBehavior(strategy=PriorityClassStrategy())
