"""The OCI runtime specification of a container, computed from inputs that the caller has resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sampan.runtimes.config import ContainerConfig, ContainerResources, ContainerSecurity, Device, Mount, SandboxConfig
from sampan.runtimes.contract import ContainerUser
from sampan.runtimes.images.host import PATH
from sampan.runtimes.images.manifests import RunConfig
from sampan.runtimes.oci.seccomp import default_profile
from sampan.runtimes.oci.users import ContainerIdentity

_PROPAGATION = {"private": "rprivate", "rslave": "rslave", "rshared": "rshared"}
_TERMINALS = ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620")
TTY_GROUP = 5
_CGROUPS = "/sys/fs/cgroup"
"""With cgroup v1 this is a tmpfs above the hierarchies, which runc and crun leave writable unless it is a read-only
path."""
_DEVICES = (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9))


CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
DEFAULT_CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
    *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
)


ALL_CAPABILITIES_HELD = -1
"""A bit set with all capabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecInputs:
    """The environment in which a container is created."""

    root: Path
    """The mount point of the container's root file system."""
    namespaces: Mapping[str, str]
    """Paths of the namespaces to join, by the names of the OCI specification; an empty path means a new namespace."""
    cgroup: str = ""
    files: Sequence[Mount] = ()
    """Mounts of the sandbox: resolv.conf, hostname and /dev/shm."""
    identity: ContainerIdentity = field(default_factory=ContainerIdentity)
    has_tty_group: bool = True
    """Whether the group `tty`, to which terminals belong, exists in the user namespace of Sampan."""
    last_capability: int = 40
    held_capabilities: int = ALL_CAPABILITIES_HELD
    """The bit set of Sampan's own capabilities; only these can be passed on to containers."""
    seccomp: Mapping[str, Any] | None = None
    """The content of a Localhost profile, if there is one."""
    apparmor: str = ""
    """The name of the AppArmor profile, if there is one."""
    host_devices: Sequence[Device] = ()
    """All devices of the machine, for a privileged container."""


def container_spec(
    config: ContainerConfig, sandbox: SandboxConfig, image: RunConfig, inputs: SpecInputs
) -> dict[str, Any]:
    security = config.security
    return {
        "ociVersion": "1.0.2",
        "process": process(config, sandbox, image, inputs),
        "root": {"path": str(inputs.root), "readonly": security.is_root_read_only},
        **({"hostname": sandbox.hostname} if "uts" in inputs.namespaces else {}),
        "mounts": _mounts(config, inputs),
        "annotations": dict(config.annotations),
        "linux": _linux(config, inputs),
    }


def process(
    config: ContainerConfig, sandbox: SandboxConfig, image: RunConfig, inputs: SpecInputs, *, argv: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the process of the container, or another process with the same environment if `argv` is set."""
    security, who = config.security, inputs.identity
    allowed = _capabilities(security, inputs)
    capabilities = allowed if who.uid == 0 else []
    result = {
        "terminal": config.has_tty,
        "user": {"uid": who.uid, "gid": who.gid, "additionalGids": list(who.groups)},
        "args": list(argv) or command(config, image),
        "env": environment(config, sandbox, image, who),
        "cwd": config.working_directory or image.working_dir or "/",
        "capabilities": {
            "bounding": _add_cap_prefix(allowed),
            "effective": _add_cap_prefix(capabilities),
            "permitted": _add_cap_prefix(capabilities),
            "inheritable": [],
            "ambient": [],
        },
        "noNewPrivileges": security.may_not_gain_privileges,
        "oomScoreAdj": config.resources.oom_score_adjust,
    }
    if inputs.apparmor:
        result["apparmorProfile"] = inputs.apparmor
    return result


def command(config: ContainerConfig, image: RunConfig) -> list[str]:
    """Return the arguments of the process. A pod's command replaces the image's entrypoint, and its args replace the
    image's cmd; if the pod sets only a command, the image's cmd is ignored."""
    if config.command:
        return [*config.command, *config.args]
    return [*(image.entrypoint or ()), *(config.args or image.cmd or ())]


def environment(config: ContainerConfig, sandbox: SandboxConfig, image: RunConfig, who: ContainerIdentity) -> list[str]:
    variables = dict(pair.partition("=")[::2] for pair in (PATH, *(image.env or ())))
    if sandbox.hostname:
        variables["HOSTNAME"] = sandbox.hostname
    if config.has_tty:
        variables["TERM"] = "xterm"
    variables.setdefault("HOME", who.home or "/")
    variables |= dict(config.env)
    return [f"{name}={value}" for name, value in variables.items()]


def user(spec: Mapping[str, Any]) -> ContainerUser:
    account = spec["process"]["user"]
    return ContainerUser(account["uid"], account["gid"], tuple(account["additionalGids"]))


def _capabilities(security: ContainerSecurity, inputs: SpecInputs) -> list[str]:
    return effective_capabilities(
        security.added,
        security.dropped,
        is_privileged=security.is_privileged,
        last=inputs.last_capability,
        supported_mask=inputs.held_capabilities,
    )


def _add_cap_prefix(names: Sequence[str]) -> list[str]:
    return [f"CAP_{name}" for name in names]


def _mounts(config: ContainerConfig, inputs: SpecInputs) -> list[dict[str, Any]]:
    is_privileged = config.security.is_privileged
    own = ["nosuid", "noexec", "nodev"]
    writable = "rw" if is_privileged else "ro"
    mounts = [
        _mount("proc", "/proc", "proc", own),
        _mount("tmpfs", "/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        _mount("devpts", "/dev/pts", "devpts", _terminal_options(inputs)),
        _mount("mqueue", "/dev/mqueue", "mqueue", own),
        _mount("sysfs", "/sys", "sysfs", [*own, writable]),
        _mount("cgroup", _CGROUPS, "cgroup", [*own, "relatime", writable]),
    ]
    named = sorted((*inputs.files, *config.mounts), key=lambda mount: mount.target.count("/"))
    return mounts + [_bind(mount) for mount in _merge_by_target(named)]


def _terminal_options(inputs: SpecInputs) -> list[str]:
    return [*_TERMINALS, *([f"gid={TTY_GROUP}"] if inputs.has_tty_group else [])]


def _merge_by_target(mounts: Sequence[Mount]) -> list[Mount]:
    """Return one mount per target. A mount of the container replaces one of the sandbox with the same target."""
    return list({mount.target.rstrip("/") or "/": mount for mount in mounts}.values())


def _bind(mount: Mount) -> dict[str, Any]:
    options = ["rbind", _PROPAGATION[mount.propagation], "ro" if mount.is_read_only else "rw"]
    if mount.is_recursively_read_only:
        options.append("rro")
    options += mount.options
    return _mount(str(mount.source), mount.target, "bind", options)


def _mount(source: str, target: str, kind: str, options: Sequence[str]) -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": source, "options": list(options)}


def _linux(config: ContainerConfig, inputs: SpecInputs) -> dict[str, Any]:
    security = config.security
    spaces = [{"type": kind, **({"path": path} if path else {})} for kind, path in inputs.namespaces.items()]
    linux: dict[str, Any] = {
        "namespaces": spaces,
        "resources": linux_resources(config.resources, security, (*config.devices, *inputs.host_devices)),
        "devices": [_device(device) for device in (*config.devices, *inputs.host_devices) if _device(device)],
        "maskedPaths": [] if security.is_privileged else list(security.masked_paths),
        "readonlyPaths": [] if security.is_privileged else [*security.read_only_paths, _CGROUPS],
        "rootfsPropagation": _root_propagation(config.mounts),
    }
    if inputs.cgroup:
        linux["cgroupsPath"] = inputs.cgroup
    if not security.is_privileged and security.seccomp.type == "RuntimeDefault":
        linux["seccomp"] = default_profile(_capabilities(security, inputs))
    elif not security.is_privileged and inputs.seccomp is not None:
        linux["seccomp"] = dict(inputs.seccomp)
    return linux


def _root_propagation(mounts: Sequence[Mount]) -> str:
    modes = {mount.propagation for mount in mounts}
    return "rshared" if "rshared" in modes else "rslave" if "rslave" in modes else "rprivate"


def linux_resources(
    limits: ContainerResources, security: ContainerSecurity, devices: Sequence[Device] = ()
) -> dict[str, Any]:
    rules: list[dict[str, Any]] = [{"allow": security.is_privileged, "access": "rwm"}]
    if not security.is_privileged:
        rules += [{"allow": True, "type": "c", "access": "m"}, {"allow": True, "type": "b", "access": "m"}]
        rules += [_rule(1, minor) for _, minor in _DEVICES]
        rules += [_rule(5, 0), _rule(5, 2), {"allow": True, "type": "c", "major": 136, "access": "rwm"}]
        rules += [_allow_device(device) for device in devices if _device(device)]
    result: dict[str, Any] = {"devices": rules, "cpu": _cpu(limits)}
    if limits.memory_bytes:
        result["memory"] = {"limit": limits.memory_bytes, "swap": limits.memory_bytes}
    if limits.cgroup_files:
        result["unified"] = dict(limits.cgroup_files)
    if limits.pids:
        result["pids"] = {"limit": limits.pids}
    if limits.huge_pages:
        result["hugepageLimits"] = [
            {"pageSize": f"{size.removesuffix('i')}B", "limit": limit} for size, limit in limits.huge_pages.items()
        ]
    return result


def _cpu(limits: ContainerResources) -> dict[str, Any]:
    cpu: dict[str, Any] = {}
    if limits.cpu_shares:
        cpu["shares"] = limits.cpu_shares
    if limits.cpu_quota:
        cpu |= {"quota": limits.cpu_quota, "period": limits.cpu_period}
    if limits.cpus:
        cpu["cpus"] = limits.cpus
    if limits.memory_nodes:
        cpu["mems"] = limits.memory_nodes
    return cpu


def _rule(major: int, minor: int) -> dict[str, Any]:
    return {"allow": True, "type": "c", "major": major, "minor": minor, "access": "rwm"}


def _device(device: Device) -> dict[str, Any]:
    """Return the OCI description of a device, or an empty dictionary if the path is not a device."""
    import os
    import stat

    try:
        status = os.stat(device.host_path)
    except OSError:
        return {}
    kind = "c" if stat.S_ISCHR(status.st_mode) else "b" if stat.S_ISBLK(status.st_mode) else ""
    if not kind:
        return {}
    major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    mode = stat.S_IMODE(status.st_mode)
    return {"path": device.path, "type": kind, "major": major, "minor": minor, "fileMode": mode, "uid": 0, "gid": 0}


def _allow_device(device: Device) -> dict[str, Any]:
    device_entry = _device(device)
    return {
        "allow": True,
        "type": device_entry["type"],
        "major": device_entry["major"],
        "minor": device_entry["minor"],
        "access": device.permissions,
    }


def effective_capabilities(
    added: Sequence[str],
    dropped: Sequence[str],
    *,
    is_privileged: bool,
    last: int,
    supported_mask: int = ALL_CAPABILITIES_HELD,
) -> list[str]:
    """Return the capabilities of a container. `last` is the number of the last capability that the kernel knows.
    `supported_mask` is the bit set of Sampan's own capabilities; only these can be passed on. Other capabilities are
    omitted unless the security context names them."""
    supported = [name for number, name in enumerate(CAPABILITIES[: last + 1]) if supported_mask >> number & 1]
    if is_privileged:
        return supported
    capabilities = set(DEFAULT_CAPABILITIES) & set(supported)
    plus, minus = (
        {_capability_name(capability) for capability in added},
        {_capability_name(capability) for capability in dropped},
    )
    if "ALL" in plus:
        capabilities |= set(supported)
    if "ALL" in minus:
        capabilities = set()
    capabilities = (capabilities | (plus - {"ALL"})) - (
        minus - {"ALL"} if "ALL" not in minus else minus - plus - {"ALL"}
    )
    return [name for name in CAPABILITIES[: last + 1] if name in capabilities]


def _capability_name(text: str) -> str:
    return text.upper().removeprefix("CAP_")
