"""The IP families and cluster IPs of a service: defaults, validation, and what an update may change."""

from collections.abc import Iterator, Sequence

from sampan.api import addresses
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import Service
from sampan.apiserver.registry.allocation import family_of
from sampan.apiserver.registry.kinds.services.service_types import (
    NONE,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    is_external_name,
    is_headless,
)

_IPS, _FAMILIES, _POLICY = "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"
_KNOWN_FAMILIES = ("IPv4", "IPv6")
_KNOWN_POLICIES = (PREFER_DUAL_STACK, REQUIRE_DUAL_STACK, SINGLE_STACK)
_FIXED = "may not change once set"


def validate_cluster_ips(service: Service, old: Service | None) -> Iterator[FieldError]:
    if is_external_name(service):
        return
    spec = service.spec
    if spec.clusterIP:
        if not spec.clusterIPs:
            yield FieldError.required(_IPS)
        elif spec.clusterIPs[0] != spec.clusterIP:
            yield FieldError.invalid(_IPS, spec.clusterIPs, "first value must match `clusterIP`")
    elif spec.clusterIPs:
        yield FieldError.invalid(_IPS, spec.clusterIPs, "must be empty when `clusterIP` is not specified")
    yield from _validate_family(service)
    wrong = list(_validate_address(service, old.spec.clusterIPs if old is not None else ()))
    yield from wrong
    if len(spec.clusterIPs) > 2:
        yield FieldError.invalid(_IPS, spec.clusterIPs, "may only hold up to 2 values")
    if not wrong:
        yield from _validate_matching_fields(service)


def _validate_family(service: Service) -> Iterator[FieldError]:
    spec = service.spec
    families: set[str] = set()
    for index, family in enumerate(spec.ipFamilies):
        if family not in _KNOWN_FAMILIES:
            yield FieldError.not_supported(f"{_FAMILIES}[{index}]", family, _KNOWN_FAMILIES)
        if family in families:
            yield FieldError.duplicate(f"{_FAMILIES}[{index}]", family)
        families.add(family)
    if spec.ipFamilyPolicy is not None and spec.ipFamilyPolicy not in _KNOWN_POLICIES:
        yield FieldError.not_supported(_POLICY, spec.ipFamilyPolicy, _KNOWN_POLICIES)


def _validate_address(service: Service, before: list[str] | tuple[()]) -> Iterator[FieldError]:
    cluster_ips = service.spec.clusterIPs
    for index, text in enumerate(cluster_ips):
        if index == 0 and text == NONE:
            if len(cluster_ips) > 1:
                yield FieldError.invalid(_IPS, cluster_ips, "'None' must be the first and only value")
        elif text not in before:
            yield from addresses.legacy_ip(text, f"{_IPS}[{index}]")


def _validate_matching_fields(service: Service) -> Iterator[FieldError]:
    """Yield errors if valid addresses do not fit each other or the IP families."""
    spec = service.spec
    if is_headless(service):
        return
    families = [family_of(address) for text in spec.clusterIPs if (address := addresses.parse(text)) is not None]
    if len(families) > 1 and len(set(families)) < 2:
        yield FieldError.invalid(_IPS, spec.clusterIPs, "may specify no more than one IP for each IP family")
    for index, (family, expected) in enumerate(zip(families, spec.ipFamilies, strict=False)):
        if expected in _KNOWN_FAMILIES and family != expected:
            text = f"expected an {expected} value as indicated by `ipFamilies[{index}]`"
            yield FieldError.invalid(f"{_IPS}[{index}]", spec.clusterIPs[index], text)


# -- changes ---------------------------------------------------------------------------------------------------------


def validate_cluster_ip_update(new: Service, old: Service) -> Iterator[FieldError]:
    """Yield errors if the primary address or family changes. The secondary one may be added and released."""
    if is_external_name(new) or is_external_name(old):
        return
    if is_headless(new) and is_headless(old):
        return
    yield from _validate_address_update(new, old)
    if not is_headless(new) and not is_headless(old):
        yield from _validate_family_update(new, old)


def _validate_address_update(new: Service, old: Service) -> Iterator[FieldError]:
    now, before = new.spec.clusterIPs, old.spec.clusterIPs
    if len(now) == len(before):
        for index, (new_ip, old_ip) in enumerate(zip(now, before, strict=True)):
            if new_ip != old_ip:
                yield FieldError.invalid(f"{_IPS}[{index}]", now, _FIXED)
        return
    if not now:
        yield FieldError.invalid(f"{_IPS}[0]", None, "primary clusterIP can not be unset")
    elif before and now[0] != before[0]:
        yield FieldError.invalid(f"{_IPS}[0]", now, _FIXED)
    if len(before) > len(now) == 1 and new.spec.ipFamilyPolicy != SINGLE_STACK:
        text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        yield FieldError.invalid(_POLICY, new.spec.ipFamilyPolicy, text)


def _validate_family_update(new: Service, old: Service) -> Iterator[FieldError]:
    now, before = new.spec.ipFamilies, old.spec.ipFamilies
    if len(now) == len(before):
        for new_family, old_family in zip(now, before, strict=True):
            if new_family != old_family:
                yield FieldError.invalid(f"{_FAMILIES}[0]", now, _FIXED)
        return
    if len(now) < len(before) and not new.spec.clusterIPs:
        yield FieldError.invalid(f"{_FAMILIES}[0]", now, "primary ipFamily can not be unset")
    if now and before and now[0] != before[0]:
        yield FieldError.invalid(f"{_FAMILIES}[0]", new.spec.clusterIPs, _FIXED)
    if len(before) > len(now) == 1 and new.spec.ipFamilyPolicy != SINGLE_STACK:
        text = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        yield FieldError.invalid(_POLICY, new.spec.ipFamilyPolicy, text)


_OTHER = {"IPv4": "IPv6", "IPv6": "IPv4"}


def set_ip_families(service: Service, old: Service | None, configured: Sequence[str]) -> list[FieldError]:
    """Set ipFamilyPolicy and ipFamilies, or return the errors. `configured` are the families of the cluster."""
    if is_external_name(service) or is_undisturbed(service, old):
        return []
    spec = service.spec
    if spec.ipFamilyPolicy is None:
        spec.ipFamilyPolicy = _default_policy(service, old)
    if errors := list(validate_cluster_ips(service, old)):
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
    for field, field_text in ((spec.clusterIPs, "cluster IPs"), (spec.ipFamilies, "IP families")):
        if len(field) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {field_text} are specified"
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
