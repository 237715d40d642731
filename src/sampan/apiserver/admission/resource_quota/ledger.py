"""Which charges fit into a quota. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sampan.api.quantity import Quantity, parse
from sampan.api.semantics.pod_resources import Amounts
from sampan.api.types.core_v1 import ResourceQuota

_ZERO = Quantity()


@dataclass(slots=True, kw_only=True)
class Charge:
    amounts: Amounts
    """The amounts to add; negative ones are released."""
    is_limited: bool = True
    """Whether the charge is rejected if it does not fit; otherwise it is only recorded."""


@dataclass(slots=True)
class Page:
    """The usage of a quota after some charges, and why some of them do not fit, by position."""

    used: dict[str, str]
    refusals: dict[int, str] = field(default_factory=dict)


def tally(quota: ResourceQuota, charges: Sequence[Charge]) -> Page:
    page = Page(dict(quota.status.used))
    for index, charge in enumerate(charges):
        amounts = {name: amount for name, amount in charge.amounts.items() if name in quota.status.hard}
        exceeded = _exceeded(quota, page.used, amounts) if charge.is_limited else []
        if exceeded:
            page.refusals[index] = _told(quota, page.used, amounts, exceeded)
        else:
            page.used |= {name: str(_after(page.used, name, amount)) for name, amount in amounts.items()}
    return page


def _after(used: dict[str, str], name: str, amount: Quantity) -> Quantity:
    total = parse(used.get(name, "0")) + amount
    return total if total.sign >= 0 else _ZERO


def _exceeded(quota: ResourceQuota, used: dict[str, str], wanted: Amounts) -> list[str]:
    hard = quota.status.hard
    return sorted(name for name, amount in wanted.items() if _after(used, name, amount) > parse(hard[name]))


def _told(quota: ResourceQuota, used: dict[str, str], wanted: Amounts, names: Iterable[str]) -> str:
    columns = (("requested", wanted), ("used", used), ("limited", quota.status.hard))
    texts = [f"{word}: {','.join(f'{name}={amounts[name]}' for name in names)}" for word, amounts in columns]
    return f"exceeded quota: {quota.metadata.name}, {', '.join(texts)}"
