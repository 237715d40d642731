"""Resource quantities: rounding, and which resources are counted in integers or may be overcommitted."""

from functools import lru_cache

from sampan.api import quantity
from sampan.api.quantity import Quantity
from sampan.api.resource_names import HUGE_PAGES, is_extended, is_huge_pages, is_native

MILLI = -3
_SHORT = 40

CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD = (
    CONTAINER_RESOURCES
    | _COUNTED
    | {"storage", "requests.storage"}
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in CONTAINER_RESOURCES}
)


def round_up(amounts: dict[str, str]) -> None:
    """Round quantities up to a multiple of one thousandth, in place."""
    for name, text in amounts.items():
        rounded = _rounded_short(text) if len(text) <= _SHORT else _rounded(text)
        if rounded != text:
            amounts[name] = rounded


def _rounded(text: str) -> str:
    return str(quantity.parse(text).round_up(MILLI))


_rounded_short = lru_cache(maxsize=8192)(_rounded)


def is_divisible(name: str, amount: Quantity) -> bool:
    """Whether an amount of huge pages is a whole number of pages."""
    try:
        page = quantity.parse(name.removeprefix(HUGE_PAGES))
    except quantity.QuantityError:
        return False
    if page.sign <= 0 or page.milli_value() % 1000:
        return False
    return amount.value() % page.value() == 0


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def is_complete(name: str) -> bool:
    """Whether the resource is counted in integers."""
    return name in _COUNTED or is_extended(name)


def is_standard(name: str) -> bool:
    return name in _STANDARD or is_huge_pages(name) or name.startswith(f"requests.{HUGE_PAGES}")
