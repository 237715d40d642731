"""The checks that the restricted standard adds to, or substitutes for, those of the baseline. Pure."""

from __future__ import annotations

import msgspec

from sampan.api.semantics.pods import AnyContainer, all_containers
from sampan.api.types.core_v1 import PodSpec, Volume
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.admission.pod_security.baseline import GOOD_PROFILES, added_capabilities, seccomp
from sampan.apiserver.admission.pod_security.violations import (
    Check,
    Violation,
    format_names,
    format_setters,
    has_user_namespace,
    is_windows,
    join_quoted,
    names_where,
    pluralize,
    use_or_uses,
)

_GOOD_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
        *("image", "persistentVolumeClaim", "projected", "secret"),
    }
)
_VOLUME_TYPES = tuple(name for name in Volume.__struct_fields__ if name != "name")
_NON_ROOT = "runAsNonRoot != true"


def exempt_windows(check: Check) -> Check:
    return lambda meta, spec: None if is_windows(spec) else check(meta, spec)


def exempt_user_namespaces(check: Check) -> Check:
    return lambda meta, spec: None if has_user_namespace(spec) else check(meta, spec)


def privilege_escalation(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    bad = names_where(spec, _may_escalate)
    if not bad:
        return None
    detail = f"{format_names('container', bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def _may_escalate(container: AnyContainer) -> bool:
    context = container.securityContext
    return context is None or context.allowPrivilegeEscalation is not False


def capabilities(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    details = []
    if keeping := names_where(spec, _keeps_some):
        details.append(f'{format_names("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    added = {c.name: set(added_capabilities(c)) - {"NET_BIND_SERVICE"} for c in all_containers(spec)}
    if bad := [name for name, forbidden in added.items() if forbidden]:
        wrong = join_quoted(sorted(set().union(*added.values())))
        details.append(f"{format_names('container', bad)} must not include {wrong} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _keeps_some(container: AnyContainer) -> bool:
    context = container.securityContext
    return context is None or context.capabilities is None or "ALL" not in context.capabilities.drop


def volumes(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    bad = {volume.name: type for volume in spec.volumes if (type := _bad_type(volume))}
    if not bad:
        return None
    types = sorted(set(bad.values()))
    word = f"{pluralize('restricted volume type', types)} {join_quoted(types)}"
    return Violation("restricted volume types", f"{format_names('volume', [*bad])} {use_or_uses(bad)} {word}")


def _bad_type(volume: Volume) -> str:
    """Return the type of a volume that is not allowed; "" if it is allowed."""
    types = [name for name in _VOLUME_TYPES if getattr(volume, name) not in (None, msgspec.UNSET)]
    return "" if _GOOD_VOLUMES.intersection(types) else next(iter(types), "unknown")


def non_root(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    own = spec.securityContext.runAsNonRoot if spec.securityContext is not None else None
    choices = {c.name: c.securityContext.runAsNonRoot if c.securityContext else None for c in all_containers(spec)}
    bad = [name for name, choice in choices.items() if choice is False]
    if own is False or bad:
        who = format_setters(own is False, bad)
        return Violation(_NON_ROOT, f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, choice in choices.items() if choice is None and own is not True]
    if not silent:
        return None
    return Violation(
        _NON_ROOT, f"pod or {format_names('container', silent)} must set securityContext.runAsNonRoot=true"
    )


def user(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    is_pod_bad = spec.securityContext is not None and spec.securityContext.runAsUser == 0
    bad = names_where(spec, lambda c: c.securityContext is not None and c.securityContext.runAsUser == 0)
    if not is_pod_bad and not bad:
        return None
    return Violation("runAsUser=0", f"{format_setters(is_pod_bad, bad)} must not set runAsUser=0")


def seccomp_set(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Return a violation unless an allowed seccomp profile is set, by the pod or by each container."""
    if (bad := seccomp(meta, spec)) is not None:
        return bad
    if spec.securityContext is not None and spec.securityContext.seccompProfile is not None:
        return None
    silent = names_where(spec, lambda c: c.securityContext is None or c.securityContext.seccompProfile is None)
    if not silent:
        return None
    good = " or ".join(f'"{profile}"' for profile in GOOD_PROFILES)
    detail = f"pod or {format_names('container', silent)} must set securityContext.seccompProfile.type to {good}"
    return Violation("seccompProfile", detail)
