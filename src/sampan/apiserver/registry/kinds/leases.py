"""Lease: a lock with an expiry, for leader election and heartbeats."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.coordination_v1 import Lease
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME


class LeaseStrategy(Strategy):
    allow_create_on_update = True
    allow_unconditional_update = False
    columns = (
        NAME,
        Column("Holder", lambda lease, now: lease.spec.holderIdentity or "", field="spec.holderIdentity"),
        AGE,
    )

    def validate_create(self, ctx: Context, obj: Lease) -> Iterable[FieldError]:
        spec = obj.spec
        if spec.leaseDurationSeconds is not None and spec.leaseDurationSeconds <= 0:
            yield FieldError.invalid("spec.leaseDurationSeconds", spec.leaseDurationSeconds, "must be greater than 0")
        if spec.leaseTransitions is not None and spec.leaseTransitions < 0:
            text = "must be greater than or equal to 0"
            yield FieldError.invalid("spec.leaseTransitions", spec.leaseTransitions, text)

    def validate_update(self, ctx: Context, obj: Lease, old: Lease) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


BEHAVIOR = ResourceBehavior(strategy=LeaseStrategy())
