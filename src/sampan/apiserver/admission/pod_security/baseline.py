"""The checks of the baseline standard, which prevents known privilege escalations. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import AnyContainer, all_containers
from sampan.api.types.core_v1 import LifecycleHandler, PodSpec, Probe, SELinuxOptions
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.admission.pod_security.violations import (
    Check,
    Violation,
    format_names,
    format_setters,
    has_user_namespace,
    join_quoted,
    names_where,
    pluralize,
    use_or_uses,
)

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
GOOD_PROFILES = ("RuntimeDefault", "Localhost")
_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
SELINUX_TYPES_1_31 = SELINUX_TYPES | {"container_engine_t"}
_IPV4 = "net.ipv4."
SYSCTLS = frozenset({"kernel.shm_rmid_forced"}) | {
    _IPV4 + name for name in ("ip_local_port_range", "tcp_syncookies", "ping_group_range", "ip_unprivileged_port_start")
}
SYSCTLS_1_27 = SYSCTLS | {f"{_IPV4}ip_local_reserved_ports"}
SYSCTLS_1_29 = SYSCTLS_1_27 | {
    _IPV4 + name for name in ("tcp_keepalive_time", "tcp_fin_timeout", "tcp_keepalive_intvl", "tcp_keepalive_probes")
}
SYSCTLS_1_32 = SYSCTLS_1_29 | {f"{_IPV4}tcp_rmem", f"{_IPV4}tcp_wmem"}


def privileged(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    bad = names_where(spec, lambda c: c.securityContext is not None and c.securityContext.privileged is True)
    if not bad:
        return None
    return Violation("privileged", f"{format_names('container', bad)} must not set securityContext.privileged=true")


def host_namespaces(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    flags = {"hostNetwork": spec.hostNetwork, "hostPID": spec.hostPID, "hostIPC": spec.hostIPC}
    bad = [f"{name}=true" for name, is_on in flags.items() if is_on]
    return Violation("host namespaces", ", ".join(bad)) if bad else None


def host_path_volumes(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    bad = [volume.name for volume in spec.volumes if volume.hostPath is not None]
    return Violation("hostPath volumes", format_names("volume", bad)) if bad else None


def host_ports(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    bad = names_where(spec, lambda c: any(port.hostPort for port in c.ports))
    if not bad:
        return None
    ports = sorted({str(port.hostPort) for c in all_containers(spec) for port in c.ports if port.hostPort})
    return Violation(
        "hostPort",
        f"{format_names('container', bad)} {use_or_uses(bad)} {pluralize('hostPort', ports)} {', '.join(ports)}",
    )


def host_probes(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    bad = sorted({c.name for c in all_containers(spec) if any(_hosts(c))})
    if not bad:
        return None
    hosts = sorted({host for c in all_containers(spec) for host in _hosts(c)})
    word = "probe or lifecycle host"
    return Violation(
        word, f"{format_names('container', bad)} {use_or_uses(bad)} {pluralize(word, hosts)} {join_quoted(hosts)}"
    )


def _hosts(container: AnyContainer) -> Iterator[str]:
    """Return the explicit hosts of the probes and lifecycle handlers of a container."""
    handlers: list[Probe | LifecycleHandler | None] = [
        container.livenessProbe,
        container.readinessProbe,
        container.startupProbe,
    ]
    if container.lifecycle is not None:
        handlers += [container.lifecycle.postStart, container.lifecycle.preStop]
    for handler in handlers:
        for action in (handler.httpGet, handler.tcpSocket) if handler is not None else ():
            if action is not None and action.host:
                yield action.host


def capabilities(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    added = {c.name: set(added_capabilities(c)) - _CAPABILITIES for c in all_containers(spec)}
    bad = [name for name, forbidden in added.items() if forbidden]
    if not bad:
        return None
    wrong = join_quoted(sorted(set().union(*added.values())))
    detail = f"{format_names('container', bad)} must not include {wrong} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def added_capabilities(container: AnyContainer) -> list[str]:
    context = container.securityContext
    return context.capabilities.add if context is not None and context.capabilities is not None else []


def app_armor(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    own = spec.securityContext.appArmorProfile if spec.securityContext is not None else None
    is_pod_bad = own is not None and own.type not in GOOD_PROFILES
    values, bad = ({own.type} if own is not None and is_pod_bad else set()), []
    for c in all_containers(spec):
        profile = c.securityContext.appArmorProfile if c.securityContext is not None else None
        if profile is not None and profile.type not in GOOD_PROFILES:
            bad.append(c.name)
            values.add(profile.type)
    who = [format_setters(is_pod_bad, bad)] if is_pod_bad or bad else []
    notes = sorted(
        f"{key}={gotext.quote(value)}" for key, value in meta.annotations.items() if _is_bad_app_armor(key, value)
    )
    if notes:
        who.append(pluralize("annotation", notes))
    if not who:
        return None
    wrong = [*sorted(values), *notes]
    detail = f"{' and '.join(who)} must not set AppArmor profile type to {join_quoted(wrong)}"
    return Violation(pluralize("forbidden AppArmor profile", wrong), detail)


def _is_bad_app_armor(key: str, value: str) -> bool:
    return key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")


def selinux(types: frozenset[str]) -> Check:
    def check(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
        own = spec.securityContext.seLinuxOptions if spec.securityContext is not None else None
        options = [(c.name, c.securityContext.seLinuxOptions) for c in all_containers(spec) if c.securityContext]
        is_pod_bad = own is not None and _is_bad_selinux(own, types)
        bad = [name for name, setting in options if setting is not None and _is_bad_selinux(setting, types)]
        if not is_pod_bad and not bad:
            return None
        everything = [setting for setting in (own, *(setting for _, setting in options)) if setting is not None]
        wrong = sorted({setting.type for setting in everything} - types)
        data = [f"{pluralize('type', wrong)} {join_quoted(wrong)}"] if wrong else []
        data += ["user may not be set"] if any(setting.user for setting in everything) else []
        data += ["role may not be set"] if any(setting.role for setting in everything) else []
        start = f"{format_setters(is_pod_bad, bad)} set forbidden securityContext.seLinuxOptions"
        return Violation("seLinuxOptions", f"{start}: {'; '.join(data)}")

    return check


def _is_bad_selinux(options: SELinuxOptions, types: frozenset[str]) -> bool:
    return options.type not in types or bool(options.user or options.role)


def sysctls(allowed: frozenset[str]) -> Check:
    def check(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
        settings = spec.securityContext.sysctls if spec.securityContext is not None else ()
        bad = [sysctl.name for sysctl in settings if sysctl.name not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def seccomp_annotations(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    keys = [_SECCOMP_POD, *(_SECCOMP + c.name for c in all_containers(spec))]
    profiles = {key: meta.annotations[key] for key in keys if key in meta.annotations}
    bad = sorted(f"{key}={gotext.quote(value)}" for key, value in profiles.items() if _is_bad_seccomp(value))
    return Violation("seccompProfile", f"forbidden {pluralize('annotation', bad)} {', '.join(bad)}") if bad else None


def _is_bad_seccomp(value: str) -> bool:
    return value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")


def seccomp(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    own = spec.securityContext.seccompProfile if spec.securityContext is not None else None
    profiles = [(c.name, c.securityContext.seccompProfile) for c in all_containers(spec) if c.securityContext]
    is_pod_bad = own is not None and own.type not in GOOD_PROFILES
    bad = [name for name, profile in profiles if profile is not None and profile.type not in GOOD_PROFILES]
    if not is_pod_bad and not bad:
        return None
    types = {profile.type for profile in (own, *(profile for _, profile in profiles)) if profile is not None}
    wrong = join_quoted(sorted(types - set(GOOD_PROFILES)))
    detail = f"{format_setters(is_pod_bad, bad)} must not set securityContext.seccompProfile.type to {wrong}"
    return Violation("seccompProfile", detail)


def proc_mount(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    mounts = {c.name: c.securityContext.procMount for c in all_containers(spec) if c.securityContext is not None}
    bad = {name: mount for name, mount in mounts.items() if mount is not None and mount != "Default"}
    if not bad:
        return None
    wrong = join_quoted(sorted(set(bad.values())))
    return Violation(
        "procMount", f"{format_names('container', [*bad])} must not set securityContext.procMount to {wrong}"
    )


def proc_mount_of_host_users(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    return None if has_user_namespace(spec) else proc_mount(meta, spec)


def windows_host_process(meta: ObjectMeta, spec: PodSpec) -> Violation | None:
    own = spec.securityContext.windowsOptions if spec.securityContext is not None else None
    is_pod_bad = own is not None and own.hostProcess is True
    bad = names_where(spec, _is_host_process)
    if not is_pod_bad and not bad:
        return None
    detail = f"{format_setters(is_pod_bad, bad)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail)


def _is_host_process(container: AnyContainer) -> bool:
    context = container.securityContext
    return context is not None and context.windowsOptions is not None and context.windowsOptions.hostProcess is True
