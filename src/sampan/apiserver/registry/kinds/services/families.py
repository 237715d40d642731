"""Which address families a service has: what it asks for, what its addresses say, what the cluster can give."""

from collections.abc import Iterator, Sequence

from sampan.api import addresses
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Service
from sampan.apiserver.registry.allocation import family_of
from sampan.apiserver.registry.kinds.services import cluster_ips
from sampan.apiserver.registry.kinds.services.traits import (
    NONE,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    is_external_name,
)

_POLICY = "spec.ipFamilyPolicy"
_OTHER = {"IPv4": "IPv6", "IPv6": "IPv4"}


def settle(service: Service, old: Service | None, configured: Sequence[str]) -> list[FieldError]:
    """Fill in ipFamilyPolicy and ipFamilies, or say why there can be none. `configured` are the cluster's families."""
    if is_external_name(service) or is_undisturbed(service, old):
        return []
    spec = service.spec
    if spec.ipFamilyPolicy is None:
        spec.ipFamilyPolicy = _default_policy(service, old)
    if faults := list(cluster_ips.faults(service, old)):
        return faults
    if faults := [*_reduce(service, old), *_policy_faults(service), *_families_of_addresses(service, configured)]:
        return faults
    if _selects_nothing(service):
        spec.ipFamilies = spec.ipFamilies or [configured[0]]
        _add_other(service, is_wanted=True)
        return []
    if faults := list(_cluster_faults(service, configured)):
        return faults
    spec.ipFamilies = spec.ipFamilies or [configured[0]]
    _add_other(service, is_wanted=len(configured) == 2)
    return []


def is_undisturbed(service: Service, old: Service | None) -> bool:
    """A service that prefers two families keeps what it has, whatever became of the cluster, as long as nothing about
    it changes."""
    if old is None or service.spec.ipFamilyPolicy != PREFER_DUAL_STACK or service.spec.type != old.spec.type:
        return False
    if old.spec.ipFamilyPolicy not in (None, PREFER_DUAL_STACK) or is_external_name(service):
        return False
    return (service.spec.clusterIPs, service.spec.ipFamilies) == (old.spec.clusterIPs, old.spec.ipFamilies)


def _default_policy(service: Service, old: Service | None) -> str:
    if old is not None and old.spec.ipFamilyPolicy is not None:
        return old.spec.ipFamilyPolicy
    return REQUIRE_DUAL_STACK if _selects_nothing(service) else SINGLE_STACK


def _selects_nothing(service: Service) -> bool:
    """Headless and without a selector: whoever writes its endpoints knows their families, not the cluster."""
    return service.spec.clusterIP == NONE and not service.spec.selector


def _reduce(service: Service, old: Service | None) -> Iterator[FieldError]:
    """Asking for a single stack is enough to give up the second family; anything else must be said clearly."""
    if old is None:
        return
    spec, before = service.spec, old.spec
    if spec.ipFamilyPolicy == SINGLE_STACK:
        if spec.clusterIPs == before.clusterIPs:
            spec.clusterIPs = spec.clusterIPs[:1]
        if spec.ipFamilies == before.ipFamilies:
            spec.ipFamilies = spec.ipFamilies[:1]
        return
    if 0 < len(spec.clusterIPs) < len(before.clusterIPs):
        text = "must be 'SingleStack' to release the secondary cluster IP"
        yield FieldError.invalid(_POLICY, spec.ipFamilyPolicy, text)
    if 0 < len(spec.ipFamilies) < len(before.ipFamilies):
        text = "must be 'SingleStack' to release the secondary IP family"
        yield FieldError.invalid(_POLICY, spec.ipFamilyPolicy, text)


def _policy_faults(service: Service) -> Iterator[FieldError]:
    spec = service.spec
    if spec.ipFamilyPolicy != SINGLE_STACK:
        return
    for field, what in ((spec.clusterIPs, "cluster IPs"), (spec.ipFamilies, "IP families")):
        if len(field) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            yield FieldError.invalid(_POLICY, spec.ipFamilyPolicy, text)


def _families_of_addresses(service: Service, configured: Sequence[str]) -> Iterator[FieldError]:
    """Families that are not named follow from the addresses."""
    spec = service.spec
    for index, text in enumerate(spec.clusterIPs):
        address = addresses.parse(text)
        if text == NONE or address is None:
            return
        if index < len(spec.ipFamilies):
            continue
        family = family_of(address)
        if family in configured:
            spec.ipFamilies.append(family)
        else:
            why = f"{family} is not configured on this cluster"
            yield FieldError.invalid(f"spec.clusterIPs[{index}]", spec.clusterIPs, why)


def _cluster_faults(service: Service, configured: Sequence[str]) -> Iterator[FieldError]:
    spec = service.spec
    if spec.ipFamilyPolicy == REQUIRE_DUAL_STACK and len(configured) < 2:
        text = "this cluster is not configured for dual-stack services"
        yield FieldError.invalid(_POLICY, spec.ipFamilyPolicy, text)
    for index, family in enumerate(spec.ipFamilies):
        if family not in configured:
            yield FieldError.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def _add_other(service: Service, *, is_wanted: bool) -> None:
    spec = service.spec
    if is_wanted and spec.ipFamilyPolicy != SINGLE_STACK and len(spec.ipFamilies) == 1:
        spec.ipFamilies.append(_OTHER[spec.ipFamilies[0]])
