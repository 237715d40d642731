"""Validation of security contexts: Linux and Windows options, sysctls, user namespaces, and the OS of a pod."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.semantics.pods import AnyContainer, containers_by_field
from sampan.api.types.core_v1 import PodSecurityContext, PodSpec, SecurityContext, WindowsSecurityContextOptions
from sampan.apiserver.registry.podspec.pod_annotations import validate_app_armor, validate_seccomp
from sampan.apiserver.registry.validation import FieldErrors, validate_optional_one_of, validate_user_or_group_id

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_SPEC_KIB = 64
_DOMAIN_UNDER = 256
_MAX_WINDOWS_USER_LENGTH = 104
_control = re.compile(r"[\x00-\x1f\x7f]").search
_net_bios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_dns_domain = re.compile(rf"{_LABEL}(?:\.{_LABEL})*").fullmatch
_bad_in_user = re.compile(r'["/\\:;|=,+*?<>@\[\]]').search
_dots_and_spaces = re.compile(r"[. ]+").fullmatch


def validate_windows_options(options: WindowsSecurityContextOptions, path: str) -> FieldErrors:
    name, spec = options.gmsaCredentialSpecName, options.gmsaCredentialSpec
    if name is not None:
        for text in names.dns1123_subdomain(name):
            yield FieldError.invalid(f"{path}.gmsaCredentialSpecName", name, text)
    if spec == "":
        text = "gmsaCredentialSpec cannot be an empty string"
        yield FieldError.invalid(f"{path}.gmsaCredentialSpec", spec, text)
    elif spec is not None and len(spec.encode()) > _SPEC_KIB * 1024:
        text = f"gmsaCredentialSpec size must be under {_SPEC_KIB} KiB"
        yield FieldError.invalid(f"{path}.gmsaCredentialSpec", spec, text)
    if options.runAsUserName is not None:
        for text in _find_user_name_errors(options.runAsUserName):
            yield FieldError.invalid(f"{path}.runAsUserName", options.runAsUserName, f"runAsUserName{text}")


def _find_user_name_errors(name: str) -> list[str]:
    """Return the errors of a user name; the caller puts the word runAsUserName before them."""
    if not name:
        return [" cannot be an empty string"]
    if _control(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    checks = (
        (len(domain) >= _DOMAIN_UNDER, f"'s Domain length must be under {_DOMAIN_UNDER} characters"),
        (
            backslash and not (_net_bios(domain) or _dns_domain(domain)),
            "'s Domain doesn't match the NetBios nor the DNS format",
        ),
        (not user, "'s User cannot be empty"),
        (
            len(user) > _MAX_WINDOWS_USER_LENGTH,
            f"'s User length must not be longer than {_MAX_WINDOWS_USER_LENGTH} characters",
        ),
        (_dots_and_spaces(user), "'s User cannot contain only periods or spaces"),
        (_bad_in_user(user), "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"),
    )
    return [text for is_bad, text in checks if is_bad]


def validate_host_process(spec: PodSpec, field_path: str) -> FieldErrors:
    """Yield errors unless all containers or none are HostProcess containers, and the former use the host network."""
    options = spec.securityContext.windowsOptions if spec.securityContext is not None else None
    of_pod = options.hostProcess if options is not None else None
    host_processes: list[bool] = []
    for part, container, index in containers_by_field(spec):
        own = _host_process(container)
        if of_pod is not None and own is not None and own != of_pod:
            text = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            path = f"{field_path}.{part}[{index}].securityContext.windowsOptions.hostProcess"
            yield FieldError.invalid(path, own, text)
        host_processes.append(bool(of_pod if own is None else own))
    if not any(host_processes):
        return
    if not all(host_processes):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield FieldError.invalid(field_path, "", text)
    if not spec.hostNetwork:
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        yield FieldError.invalid(f"{field_path}.hostNetwork", False, text)


def _host_process(container: AnyContainer) -> bool | None:
    options = container.securityContext.windowsOptions if container.securityContext is not None else None
    return options.hostProcess if options is not None else None


_MAX_SYSCTL_LENGTH = 253
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_PATTERN = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_is_name = re.compile(_PATTERN.replace("(", "(?:").replace("$", r"\Z")).match
_BAD_NAME = f"must have at most {_MAX_SYSCTL_LENGTH} characters and match regex {_PATTERN}"

_IPC = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)


def validate_sysctls(spec: PodSpec, options: PodValidationOptions, field_path: str) -> FieldErrors:
    sysctl_names: set[str] = set()
    for index, sysctl in enumerate(spec.securityContext.sysctls if spec.securityContext is not None else ()):
        name, path = sysctl.name, f"{field_path}[{index}].name"
        if not name:
            yield FieldError.required(path)
        elif len(name) > _MAX_SYSCTL_LENGTH or not _is_name(name):
            yield FieldError.invalid(path, name, _BAD_NAME)
        elif name in sysctl_names:
            yield FieldError.duplicate(path, name)
        if (shared := _find_host_namespace_field(name, spec)) and not options.host_sysctls:
            yield FieldError.invalid(path, name, f"may not be specified when '{shared}' is true")
        sysctl_names.add(name)


def has_host_sysctl(spec: PodSpec) -> bool:
    context = spec.securityContext
    return context is not None and any(_find_host_namespace_field(sysctl.name, spec) for sysctl in context.sysctls)


def _find_host_namespace_field(name: str, spec: PodSpec) -> str:
    """Return the field that makes the pod share the sysctl's namespace with the host, "" if it is not shared."""
    name = _normalize_sysctl_name(name).partition("*")[0]
    if spec.hostNetwork and name.startswith("net."):
        return "hostNetwork"
    if spec.hostIPC and (name in _IPC or name.startswith("fs.mqueue.")):
        return "hostIPC"
    return ""


def _normalize_sysctl_name(name: str) -> str:
    """Return the name with dots as separators: if a slash comes first, slashes and dots are swapped."""
    slash, dot = name.find("/"), name.find(".")
    if slash == -1 or (dot != -1 and dot < slash):
        return name
    return name.translate(str.maketrans("./", "/."))


_PROC_MOUNTS = ("Default", "Unmasked")


def validate_security_context(
    context: SecurityContext, path: str, *, host_users: bool, allows_unescalated_admin: bool
) -> FieldErrors:
    yield from validate_user_or_group_id(context.runAsUser, f"{path}.runAsUser")
    yield from validate_user_or_group_id(context.runAsGroup, f"{path}.runAsGroup")
    if context.procMount is not None:
        yield from validate_optional_one_of(context.procMount, _PROC_MOUNTS, f"{path}.procMount")
        if host_users and context.procMount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            yield FieldError.invalid(f"{path}.procMount", context.procMount, text)
    if context.seccompProfile is not None:
        yield from validate_seccomp(context.seccompProfile, f"{path}.seccompProfile")
    if context.allowPrivilegeEscalation is False:
        yield from _validate_privilege_escalation(context, allows_unescalated_admin, path)
    if context.windowsOptions is not None:
        yield from validate_windows_options(context.windowsOptions, f"{path}.windowsOptions")
    if context.appArmorProfile is not None:
        yield from validate_app_armor(context.appArmorProfile, f"{path}.appArmorProfile")


def _validate_privilege_escalation(context: SecurityContext, allows_unescalated_admin: bool, path: str) -> FieldErrors:
    if context.privileged:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield FieldError.invalid(path, encode_error_value(context), text)
    if not allows_unescalated_admin and adds_sys_admin(context):
        text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        yield FieldError.invalid(path, encode_error_value(context), text)


def adds_sys_admin(context: SecurityContext) -> bool:
    return context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add


_EMPTY = PodSecurityContext()


def validate_pod_security_context(spec: PodSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    context = spec.securityContext
    if context is None or context == _EMPTY:
        return
    yield from validate_user_or_group_id(context.fsGroup, f"{path}.fsGroup")
    yield from validate_user_or_group_id(context.runAsUser, f"{path}.runAsUser")
    yield from validate_user_or_group_id(context.runAsGroup, f"{path}.runAsGroup")
    for index, group in enumerate(context.supplementalGroups):
        yield from validate_user_or_group_id(group, f"{path}.supplementalGroups[{index}]")
    yield from validate_sysctls(spec, options, f"{path}.sysctls")
    yield from _validate_policies_and_profiles(context, path)
    yield from validate_optional_one_of(
        context.seLinuxChangePolicy, ("MountOption", "Recursive"), f"{path}.seLinuxChangePolicy"
    )


def validate_shared_process_namespace(spec: PodSpec, path: str) -> FieldErrors:
    if spec.shareProcessNamespace and spec.hostPID:
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield FieldError.invalid(f"{path}.shareProcessNamespace", True, text)


def _validate_policies_and_profiles(context: PodSecurityContext, path: str) -> FieldErrors:
    yield from validate_optional_one_of(
        context.fsGroupChangePolicy, ("Always", "OnRootMismatch"), f"{path}.fsGroupChangePolicy"
    )
    if context.seccompProfile is not None:
        yield from validate_seccomp(context.seccompProfile, f"{path}.seccompProfile")
    if context.windowsOptions is not None:
        yield from validate_windows_options(context.windowsOptions, f"{path}.windowsOptions")
    if context.appArmorProfile is not None:
        yield from validate_app_armor(context.appArmorProfile, f"{path}.appArmorProfile")
    yield from validate_optional_one_of(
        context.supplementalGroupsPolicy, ("Merge", "Strict"), f"{path}.supplementalGroupsPolicy"
    )


def validate_user_namespace(spec: PodSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    """Yield errors if a pod with a user namespace shares other namespaces with the host or uses block devices."""
    text = "when `hostUsers` is false"
    if spec.hostNetwork:
        yield FieldError.forbidden(f"{path}.hostNetwork", text)
    if spec.hostPID:
        yield FieldError.forbidden(f"{path}.HostPID", text)
    if spec.hostIPC:
        yield FieldError.forbidden(f"{path}.HostIPC", text)
    for part, container, index in containers_by_field(spec):
        if container.volumeDevices and not options.user_namespace_devices:
            yield FieldError.forbidden(f"{path}.{part}[{index}].volumeDevices", text)


# -- operating system ------------------------------------------------------------------------------------------------

_NOT_FOR_WINDOWS_PODS = (
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
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


def validate_os(spec: PodSpec, path: str) -> FieldErrors:
    name = spec.os.name if spec.os is not None else ""
    if not name:
        yield FieldError.required(f"{path}.os.name")
    elif name == "linux":
        yield from _validate_linux_fields(spec, path)
    elif name == "windows":
        yield from _validate_windows_fields(spec, path)
    else:
        yield FieldError.not_supported(f"{path}.os", name, ("linux", "windows"))


def _validate_linux_fields(spec: PodSpec, path: str) -> FieldErrors:
    text = "windows options cannot be set for a linux pod"
    if spec.securityContext is not None and spec.securityContext.windowsOptions is not None:
        yield FieldError.forbidden(f"{path}.securityContext.windowsOptions", text)
    for part, container, index in containers_by_field(spec):
        if container.securityContext is not None and container.securityContext.windowsOptions is not None:
            yield FieldError.forbidden(f"{path}.{part}[{index}].securityContext.windowsOptions", text)


def _validate_windows_fields(spec: PodSpec, field_path: str) -> FieldErrors:
    text = "cannot be set for a windows pod"
    context = spec.securityContext or _EMPTY
    for path in _NOT_FOR_WINDOWS_PODS:
        owner, field = (context, path.partition(".")[2]) if "." in path else (spec, path)
        value = getattr(owner, field)
        is_set = value if field in ("hostPID", "hostIPC", "sysctls", "supplementalGroups") else value is not None
        if is_set:
            yield FieldError.forbidden(f"{field_path}.{path}", text)
    for part, container, index in containers_by_field(spec):
        if container.securityContext is None:
            continue
        for field in _NOT_FOR_WINDOWS_CONTAINERS:
            if getattr(container.securityContext, field) is not None:
                yield FieldError.forbidden(f"{field_path}.{part}[{index}].securityContext.{field}", text)
