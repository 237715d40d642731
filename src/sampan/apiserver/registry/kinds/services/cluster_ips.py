"""Validation of clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy, which depend on each other."""

from collections.abc import Iterator

from sampan.api import addresses
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Service
from sampan.apiserver.registry.allocation import family_of
from sampan.apiserver.registry.kinds.services.traits import (
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
