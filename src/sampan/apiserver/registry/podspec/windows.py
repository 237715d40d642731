"""Validation of Windows security options and HostProcess containers."""

import re

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.semantics.pods import AnyContainer, containers_by_field
from sampan.api.types.core_v1 import PodSpec, WindowsSecurityContextOptions
from sampan.apiserver.registry.podspec.formats import FieldErrors

_SPEC_KIB = 64
_DOMAIN_UNDER = 256
_USER_MOST = 104
_control = re.compile(r"[\x00-\x1f\x7f]").search
_net_bios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_dns_domain = re.compile(rf"{_LABEL}(?:\.{_LABEL})*").fullmatch
_bad_in_user = re.compile(r'["/\\:;|=,+*?<>@\[\]]').search
_dots_and_spaces = re.compile(r"[. ]+").fullmatch


def validate_windows_options(options: WindowsSecurityContextOptions, at: str) -> FieldErrors:
    name, spec = options.gmsaCredentialSpecName, options.gmsaCredentialSpec
    if name is not None:
        for text in names.dns1123_subdomain(name):
            yield FieldError.invalid(f"{at}.gmsaCredentialSpecName", name, text)
    if spec == "":
        text = "gmsaCredentialSpec cannot be an empty string"
        yield FieldError.invalid(f"{at}.gmsaCredentialSpec", spec, text)
    elif spec is not None and len(spec.encode()) > _SPEC_KIB * 1024:
        text = f"gmsaCredentialSpec size must be under {_SPEC_KIB} KiB"
        yield FieldError.invalid(f"{at}.gmsaCredentialSpec", spec, text)
    if options.runAsUserName is not None:
        for text in _find_user_name_errors(options.runAsUserName):
            yield FieldError.invalid(f"{at}.runAsUserName", options.runAsUserName, f"runAsUserName{text}")


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
        (len(user) > _USER_MOST, f"'s User length must not be longer than {_USER_MOST} characters"),
        (_dots_and_spaces(user), "'s User cannot contain only periods or spaces"),
        (_bad_in_user(user), "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"),
    )
    return [text for is_bad, text in checks if is_bad]


def validate_host_process(spec: PodSpec, at: str) -> FieldErrors:
    """Yield errors unless all containers or none are HostProcess containers, and the former use the host network."""
    options = spec.securityContext.windowsOptions if spec.securityContext is not None else None
    of_pod = options.hostProcess if options is not None else None
    host_processes: list[bool] = []
    for part, container, index in containers_by_field(spec):
        own = _host_process(container)
        if of_pod is not None and own is not None and own != of_pod:
            text = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            path = f"{at}.{part}[{index}].securityContext.windowsOptions.hostProcess"
            yield FieldError.invalid(path, own, text)
        host_processes.append(bool(of_pod if own is None else own))
    if not any(host_processes):
        return
    if not all(host_processes):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield FieldError.invalid(at, "", text)
    if not spec.hostNetwork:
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        yield FieldError.invalid(f"{at}.hostNetwork", False, text)


def _host_process(container: AnyContainer) -> bool | None:
    options = container.securityContext.windowsOptions if container.securityContext is not None else None
    return options.hostProcess if options is not None else None
