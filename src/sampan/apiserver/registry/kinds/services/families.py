"""The IP families of a service, from its spec, its addresses and the configuration of the cluster."""

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
    """Set ipFamilyPolicy and ipFamilies, or return the errors. `configured` are the families of the cluster."""
    if is_external_name(service) or is_undisturbed(service, old):
        return []
    spec = service.spec
    if spec.ipFamilyPolicy is None:
        spec.ipFamilyPolicy = _default_policy(service, old)
    if errors := list(cluster_ips.validate_cluster_ips(service, old)):
        return errors
    if errors := [
        *_release_secondary_family(service, old),
        *_validate_policy(service),
        *_infer_families_from_addresses(service, configured),
    ]:
        return errors
    if _selects_nothing(service):
        spec.ipFamilies = spec.ipFamilies or [configured[0]]
        _add_other(service, is_wanted=True)
        return []
    if errors := list(_validate_configured_families(service, configured)):
        return errors
    spec.ipFamilies = spec.ipFamilies or [configured[0]]
    _add_other(service, is_wanted=len(configured) == 2)
    return []


def is_undisturbed(service: Service, old: Service | None) -> bool:
    """Whether the update of a PreferDualStack service leaves type, addresses and families unchanged.

    Such a service keeps its families even if those of the cluster have changed.
    """
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
    """Whether the service is headless without a selector, so that its families do not depend on the cluster."""
    return service.spec.clusterIP == NONE and not service.spec.selector


def _release_secondary_family(service: Service, old: Service | None) -> Iterator[FieldError]:
    """Release the secondary address and family if the policy became SingleStack; otherwise doing so is an error."""
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


def _validate_policy(service: Service) -> Iterator[FieldError]:
    spec = service.spec
    if spec.ipFamilyPolicy != SINGLE_STACK:
        return
    for field, what in ((spec.clusterIPs, "cluster IPs"), (spec.ipFamilies, "IP families")):
        if len(field) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            yield FieldError.invalid(_POLICY, spec.ipFamilyPolicy, text)


def _infer_families_from_addresses(service: Service, configured: Sequence[str]) -> Iterator[FieldError]:
    """Add the families of the addresses for which no family is specified."""
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


def _validate_configured_families(service: Service, configured: Sequence[str]) -> Iterator[FieldError]:
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
