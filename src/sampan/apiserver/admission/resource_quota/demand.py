"""The usage that a write adds to a quota. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.api.quantity import Quantity
from sampan.api.semantics.pod_resources import Amounts
from sampan.api.types.core_v1 import ResourceQuota
from sampan.machinery.quota import Evaluator, is_in_scope

_ZERO = Quantity()


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    evaluator: Evaluator
    obj: Any
    old: Any
    """The object before the write; None for a create."""
    now: float

    def concerns(self, quota: ResourceQuota) -> bool:
        evaluator = self.evaluator
        return bool(evaluator.names_in(quota.status.hard)) and is_in_scope(quota, self.obj, evaluator.is_in)

    def obstacle(self, quota: ResourceQuota) -> str:
        """Return why a quota that applies to the write cannot be charged; "" if it can."""
        names = self.evaluator.names_in(quota.status.hard)
        if lacking := self.evaluator.missing(self.obj, names):
            return f"failed quota: {quota.metadata.name}: {lacking}"
        if not names <= quota.status.used.keys():
            return f"status unknown for quota: {quota.metadata.name}, resources: {','.join(sorted(names))}"
        return ""

    def negative(self) -> list[str]:
        """Return the resources whose usage by the object is negative."""
        return sorted(name for name, amount in self.usage().items() if amount.sign < 0)

    def usage(self) -> Amounts:
        return self.evaluator.usage(self.obj, self.now)

    def demand(self, quota: ResourceQuota) -> Amounts:
        """Return what the quota must be charged; only the increase if it was already charged for the old object."""
        used = self.usage()
        if self.old is not None and is_in_scope(quota, self.old, self.evaluator.is_in):
            before = self.evaluator.usage(self.old, self.now)
            used = {name: amount - before.get(name, _ZERO) for name, amount in used.items()}
        return {name: amount for name, amount in used.items() if amount.sign > 0 and name in quota.status.hard}
