"""Validation of security contexts, user namespaces and `spec.os`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.semantics.pods import containers_by_field
from sampan.api.types.core_v1 import PodSecurityContext, PodSpec, SecurityContext
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_optional_one_of, validate_user_or_group_id
from sampan.apiserver.registry.podspec.internal_view import shown
from sampan.apiserver.registry.podspec.profiles import validate_app_armor, validate_seccomp
from sampan.apiserver.registry.podspec.sysctls import validate_sysctls
from sampan.apiserver.registry.podspec.windows import validate_windows_options

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_PROC_MOUNTS = ("Default", "Unmasked")


def validate_security_context(context: SecurityContext, at: str, *, host_users: bool) -> FieldErrors:
    yield from validate_user_or_group_id(context.runAsUser, f"{at}.runAsUser")
    yield from validate_user_or_group_id(context.runAsGroup, f"{at}.runAsGroup")
    if context.procMount is not None:
        yield from validate_optional_one_of(context.procMount, _PROC_MOUNTS, f"{at}.procMount")
        if host_users and context.procMount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            yield FieldError.invalid(f"{at}.procMount", context.procMount, text)
    if context.seccompProfile is not None:
        yield from validate_seccomp(context.seccompProfile, f"{at}.seccompProfile")
    if context.allowPrivilegeEscalation is False:
        yield from _validate_privilege_escalation(context, at)
    if context.windowsOptions is not None:
        yield from validate_windows_options(context.windowsOptions, f"{at}.windowsOptions")
    if context.appArmorProfile is not None:
        yield from validate_app_armor(context.appArmorProfile, f"{at}.appArmorProfile")


def _validate_privilege_escalation(context: SecurityContext, at: str) -> FieldErrors:
    if context.privileged:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield FieldError.invalid(at, shown(context), text)
    for capability in context.capabilities.add if context.capabilities is not None else ():
        if capability == "CAP_SYS_ADMIN":
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield FieldError.invalid(at, shown(context), text)


_EMPTY = PodSecurityContext()


def validate_pod_security_context(spec: PodSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    context = spec.securityContext
    if context is None or context == _EMPTY:
        yield from _validate_shared_process_namespace(spec, at)
        return
    yield from validate_user_or_group_id(context.fsGroup, f"{at}.fsGroup")
    yield from validate_user_or_group_id(context.runAsUser, f"{at}.runAsUser")
    yield from validate_user_or_group_id(context.runAsGroup, f"{at}.runAsGroup")
    for index, group in enumerate(context.supplementalGroups):
        yield from validate_user_or_group_id(group, f"{at}.supplementalGroups[{index}]")
    yield from _validate_shared_process_namespace(spec, at)
    yield from validate_sysctls(spec, options, f"{at}.sysctls")
    yield from _validate_policies_and_profiles(context, at)
    policy = context.seLinuxChangePolicy
    if policy is not None and policy != "Recursive":
        yield from _validate_change_policy(policy, options, f"{at}.seLinuxChangePolicy")


def _validate_change_policy(policy: str, options: PodValidationOptions, at: str) -> FieldErrors:
    """Yield an error for MountOption, whose feature gate is off by default, unless the old pod sets a policy."""
    known = ("MountOption", "Recursive") if options.selinux_mounts else ("Recursive",)
    yield from validate_optional_one_of(policy, known, at)


def _validate_shared_process_namespace(spec: PodSpec, at: str) -> FieldErrors:
    if spec.shareProcessNamespace and spec.hostPID:
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield FieldError.invalid(f"{at}.shareProcessNamespace", True, text)


def _validate_policies_and_profiles(context: PodSecurityContext, at: str) -> FieldErrors:
    yield from validate_optional_one_of(
        context.fsGroupChangePolicy, ("Always", "OnRootMismatch"), f"{at}.fsGroupChangePolicy"
    )
    if context.seccompProfile is not None:
        yield from validate_seccomp(context.seccompProfile, f"{at}.seccompProfile")
    if context.windowsOptions is not None:
        yield from validate_windows_options(context.windowsOptions, f"{at}.windowsOptions")
    if context.appArmorProfile is not None:
        yield from validate_app_armor(context.appArmorProfile, f"{at}.appArmorProfile")
    yield from validate_optional_one_of(
        context.supplementalGroupsPolicy, ("Merge", "Strict"), f"{at}.supplementalGroupsPolicy"
    )


def validate_user_namespace(spec: PodSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    """Yield errors if a pod with a user namespace shares other namespaces with the host or uses block devices."""
    text = "when `hostUsers` is false"
    if spec.hostNetwork:
        yield FieldError.forbidden(f"{at}.hostNetwork", text)
    if spec.hostPID:
        yield FieldError.forbidden(f"{at}.HostPID", text)
    if spec.hostIPC:
        yield FieldError.forbidden(f"{at}.HostIPC", text)
    for part, container, index in containers_by_field(spec):
        if container.volumeDevices and not options.user_namespace_devices:
            yield FieldError.forbidden(f"{at}.{part}[{index}].volumeDevices", text)


# -- operating system ------------------------------------------------------------------------------------------------

_NOT_FOR_WINDOWS_PODS = (
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)
_NOT_FOR_WINDOWS_CONTAINERS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def validate_os(spec: PodSpec, at: str) -> FieldErrors:
    name = spec.os.name if spec.os is not None else ""
    if not name:
        yield FieldError.required(f"{at}.os.name")
    elif name == "linux":
        yield from _validate_linux_fields(spec, at)
    elif name == "windows":
        yield from _validate_windows_fields(spec, at)
    else:
        yield FieldError.not_supported(f"{at}.os", name, ("linux", "windows"))


def _validate_linux_fields(spec: PodSpec, at: str) -> FieldErrors:
    text = "windows options cannot be set for a linux pod"
    if spec.securityContext is not None and spec.securityContext.windowsOptions is not None:
        yield FieldError.forbidden(f"{at}.securityContext.windowsOptions", text)
    for part, container, index in containers_by_field(spec):
        if container.securityContext is not None and container.securityContext.windowsOptions is not None:
            yield FieldError.forbidden(f"{at}.{part}[{index}].securityContext.windowsOptions", text)


def _validate_windows_fields(spec: PodSpec, at: str) -> FieldErrors:
    text = "cannot be set for a windows pod"
    context = spec.securityContext or _EMPTY
    for path in _NOT_FOR_WINDOWS_PODS:
        owner, field = (context, path.partition(".")[2]) if "." in path else (spec, path)
        value = getattr(owner, field)
        is_set = value if field in ("hostPID", "hostIPC", "sysctls", "supplementalGroups") else value is not None
        if is_set:
            yield FieldError.forbidden(f"{at}.{path}", text)
    for part, container, index in containers_by_field(spec):
        if container.securityContext is None:
            continue
        for field in _NOT_FOR_WINDOWS_CONTAINERS:
            if getattr(container.securityContext, field) is not None:
                yield FieldError.forbidden(f"{at}.{part}[{index}].securityContext.{field}", text)
