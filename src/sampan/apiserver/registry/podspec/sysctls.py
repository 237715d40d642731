"""Validation of sysctls, which must not belong to namespaces that the pod shares with the host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import PodSpec
from sampan.apiserver.registry.podspec.formats import FieldErrors

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_LONGEST = 253
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_PATTERN = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_is_name = re.compile(_PATTERN.replace("(", "(?:").replace("$", r"\Z")).match
_BAD_NAME = f"must have at most {_LONGEST} characters and match regex {_PATTERN}"

_IPC = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)


def validate_sysctls(spec: PodSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    sysctl_names: set[str] = set()
    for index, sysctl in enumerate(spec.securityContext.sysctls if spec.securityContext is not None else ()):
        name, path = sysctl.name, f"{at}[{index}].name"
        if not name:
            yield FieldError.required(path)
        elif len(name) > _LONGEST or not _is_name(name):
            yield FieldError.invalid(path, name, _BAD_NAME)
        elif name in sysctl_names:
            yield FieldError.duplicate(path, name)
        if (shared := _shared_with_host(name, spec)) and not options.host_sysctls:
            yield FieldError.invalid(path, name, f"may not be specified when '{shared}' is true")
        sysctl_names.add(name)


def has_host_sysctl(spec: PodSpec) -> bool:
    context = spec.securityContext
    return context is not None and any(_shared_with_host(sysctl.name, spec) for sysctl in context.sysctls)


def _shared_with_host(name: str, spec: PodSpec) -> str:
    """Return the field that makes the pod share the sysctl's namespace with the host, "" if it is not shared."""
    name = _normal(name).partition("*")[0]
    if spec.hostNetwork and name.startswith("net."):
        return "hostNetwork"
    if spec.hostIPC and (name in _IPC or name.startswith("fs.mqueue.")):
        return "hostIPC"
    return ""


def _normal(name: str) -> str:
    """Return the name with dots as separators: if a slash comes first, slashes and dots are swapped."""
    slash, dot = name.find("/"), name.find(".")
    if slash == -1 or (dot != -1 and dot < slash):
        return name
    return name.translate(str.maketrans("./", "/."))
