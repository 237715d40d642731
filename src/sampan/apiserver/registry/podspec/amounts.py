"""Resource lists: rounding, sums over the containers of a pod, and what the names of resources mean."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from sampan.api import names, quantity
from sampan.api.quantity import Quantity
from sampan.api.types.core_v1 import Container, PodSpec

MILLI = -3
_SHORT = 40
_HUGE_PAGES = "hugepages-"

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
    """Amounts finer than a thousandth become the next thousandth, in place."""
    for name, text in amounts.items():
        rounded = _rounded_short(text) if len(text) <= _SHORT else _rounded(text)
        if rounded != text:
            amounts[name] = rounded


def _rounded(text: str) -> str:
    return str(quantity.parse(text).round_up(MILLI))


_rounded_short = lru_cache(maxsize=8192)(_rounded)


def is_huge_pages(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def is_divisible(name: str, amount: Quantity) -> bool:
    """Whether an amount of huge pages is a whole number of them."""
    try:
        page = quantity.parse(name.removeprefix(_HUGE_PAGES))
    except quantity.QuantityError:
        return False
    if page.sign <= 0 or page.milli_value() % 1000:
        return False
    return amount.value() % page.value() == 0


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def is_whole(name: str) -> bool:
    """Whether the resource is counted in whole numbers."""
    return name in _COUNTED or is_extended(name)


def is_standard(name: str) -> bool:
    return name in _STANDARD or is_huge_pages(name) or name.startswith(f"requests.{_HUGE_PAGES}")


def is_pod_level(name: str) -> bool:
    """Whether a pod as a whole may ask for it."""
    return name in ("cpu", "memory") or is_huge_pages(name)


Amounts = dict[str, Quantity]


def pod_requests(spec: PodSpec) -> Amounts:
    """What the containers ask for together: the sum of those that run at the same time, and at least what each init
    container needs beside the sidecars that were started before it."""
    return _together(spec, lambda container: container.resources.requests)


def pod_limits(spec: PodSpec) -> Amounts:
    return _together(spec, lambda container: container.resources.limits)


def effective_requests(spec: PodSpec) -> Amounts:
    """What a node has to have for the pod: its own word counts more than its containers', its overhead comes on top."""
    total = pod_requests(spec)
    if spec.resources is not None:
        own = summed([spec.resources.requests])
        total.update({name: amount for name, amount in own.items() if is_pod_level(name)})
    _add(total, summed([spec.overhead]))
    return total


def _together(spec: PodSpec, pick: Callable[[Container], Mapping[str, str]]) -> Amounts:
    total = summed(pick(container) for container in spec.containers or ())
    started: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers:
        own = summed([pick(container)])
        if container.restartPolicy == "Always":
            _add(total, own)
            _add(started, own)
            own = started
        else:
            _add(own, started)
        _raise_to(peak, own)
    _raise_to(total, peak)
    return total


def summed(lists: Iterable[Mapping[str, str]]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        _add(total, {name: quantity.parse(text) for name, text in amounts.items()})
    return total


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount
