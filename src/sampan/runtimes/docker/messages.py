"""Messages of the Docker Engine: request bodies for the pause container of a pod and its containers, and the conversion
of responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.api.values import times
from sampan.runtimes import contract, labels
from sampan.runtimes.config import (
    ContainerConfig,
    ContainerResources,
    ContainerSecurity,
    Mount,
    SandboxConfig,
    SecurityProfile,
)
from sampan.runtimes.contract import ContainerUsage, ContainerUser, ImageInfo, RuntimeFailure
from sampan.runtimes.pod_table import ObservedContainer, ObservedSandbox, exit_reason
from sampan.runtimes.users import BadUser, parse_id

TYPE, POD, CONTAINER = "io.kubernetes.docker.type", "podsandbox", "container"
ATTEMPT, LOG_PATH, SANDBOX = (f"sampan.dev/{name}" for name in ("attempt", "log-path", "sandbox"))
_PROPAGATION = {"private": "rprivate", "rslave": "rslave", "rshared": "rshared"}
_LOGS = {"Type": "json-file", "Config": {"max-size": "16m", "max-file": "2"}}
_NO_LIMIT = -1
_STATES = {"created": contract.CREATED, "exited": contract.EXITED, "dead": contract.EXITED}
_STATES |= dict.fromkeys(("running", "paused", "restarting", "removing"), contract.RUNNING)
_ZERO_TIME = "0001-01-01T00:00:00Z"
_BEGUN = ("running", "paused", "restarting")

Inspected = Mapping[str, Any]


def sandbox_name(config: SandboxConfig, attempt: int) -> str:
    return f"k8s_POD_{config.name}_{config.namespace}_{config.uid}_{attempt}"


def sandbox_body(config: SandboxConfig, attempt: int, node: str, *, image: str, network: str) -> dict[str, Any]:
    """Return the body for a pause container. `network` is the name of a Docker network, or `none` if Sampan connects
    the pod."""
    mode = "host" if config.namespaces.network == "node" else network
    has_ports = mode not in ("host", "none")
    ports = {f"{port.container_port}/{port.protocol.lower() or 'tcp'}": port for port in config.ports if has_ports}
    host: dict[str, Any] = {
        "NetworkMode": mode,
        "Runtime": config.handler,
        "IpcMode": "host" if config.namespaces.ipc == "node" else "shareable",
        "PidMode": "host" if config.namespaces.pid == "node" else "",
        "CgroupParent": config.cgroup_parent,
        "Sysctls": dict(config.sysctls),
        "ShmSize": config.shm_bytes,
        "ReadonlyRootfs": True,
        "SecurityOpt": [*_options(config.security, None), "no-new-privileges"],
        "LogConfig": _LOGS,
        "PortBindings": {
            key: [{"HostIp": port.host_ip, "HostPort": str(port.host_port)}] for key, port in ports.items()
        },
    }
    object_labels = {TYPE: POD, ATTEMPT: str(attempt)}
    return {
        "Image": image,
        "Hostname": config.hostname if mode != "host" else "",
        "Labels": {**labels.sandbox_labels(config, node), **object_labels},
        "ExposedPorts": {key: {} for key in ports},
        "HostConfig": host,
    }


def container_name(config: ContainerConfig, sandbox: SandboxConfig) -> str:
    return f"k8s_{config.name}_{sandbox.name}_{sandbox.namespace}_{sandbox.uid}_{config.attempt}"


def container_body(
    config: ContainerConfig,
    sandbox: SandboxConfig,
    node: str,
    *,
    pause: str,
    files: Sequence[Mount] = (),
    seccomp: str | None = None,
) -> dict[str, Any]:
    """Return the body for a container. `pause` is the id of the pause container; `files` are mounts of the sandbox;
    `seccomp` is the text of a Localhost profile."""
    object_labels = {TYPE: CONTAINER, ATTEMPT: str(config.attempt), SANDBOX: pause, LOG_PATH: str(config.log_path)}
    return {
        "Image": config.image_ref or config.image,
        "Entrypoint": list(config.command) or None,
        "Cmd": list(config.args) or None,
        "Env": [f"{name}={value}" for name, value in config.env],
        "WorkingDir": config.working_directory,
        "User": _user(config.security),
        "Labels": {**labels.container_labels(config, sandbox, node), **object_labels},
        "Tty": config.has_tty,
        "OpenStdin": config.has_stdin,
        "StdinOnce": config.closes_stdin,
        "StopSignal": config.stop_signal,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(config, sandbox, pause, files, seccomp),
    }


def _host_config(
    config: ContainerConfig, sandbox: SandboxConfig, pause: str, files: Sequence[Mount], seccomp: str | None
) -> dict[str, Any]:
    security, of_pod = config.security, f"container:{pause}"
    own = {mount.target.rstrip("/") for mount in config.mounts}
    mounts = [*(item for item in files if item.target not in own), *config.mounts]
    return {
        "NetworkMode": "host" if sandbox.namespaces.network == "node" else of_pod,
        "Runtime": sandbox.handler,
        "IpcMode": "host" if config.namespaces.ipc == "node" else of_pod,
        "PidMode": _pid_mode(config, of_pod),
        "CgroupParent": sandbox.cgroup_parent,
        "Mounts": [_mount(item) for item in mounts],
        "Devices": [
            {"PathOnHost": item.host_path, "PathInContainer": item.path, "CgroupPermissions": item.permissions}
            for item in config.devices
        ],
        "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": list(config.cdi_devices)}] if config.cdi_devices else [],
        "Privileged": security.is_privileged,
        "ReadonlyRootfs": security.is_root_read_only,
        "CapAdd": [_capability(item) for item in security.added],
        "CapDrop": [_capability(item) for item in security.dropped],
        "GroupAdd": [str(item) for item in security.supplemental_groups],
        "SecurityOpt": _options(security, seccomp),
        "MaskedPaths": list(security.masked_paths),
        "ReadonlyPaths": list(security.read_only_paths),
        "LogConfig": _LOGS,
        "OomScoreAdj": config.resources.oom_score_adjust,
        **limits(config.resources),
    }


def limits(resources: ContainerResources) -> dict[str, Any]:
    settings: dict[str, Any] = {"CpuShares": resources.cpu_shares, "CpusetCpus": resources.cpus}
    settings |= {"CpusetMems": resources.memory_nodes, "PidsLimit": resources.pids or None}
    if resources.cpu_quota:
        settings |= {"CpuQuota": resources.cpu_quota, "CpuPeriod": resources.cpu_period}
    if resources.memory_bytes:
        settings |= {"Memory": resources.memory_bytes, "MemorySwap": resources.memory_bytes}
    if reserved := int(resources.cgroup_files.get("memory.low", "0")):
        settings["MemoryReservation"] = reserved
    return settings


def build_limits_update(resources: ContainerResources) -> dict[str, Any]:
    """Return the limits for updating a running container. A removed limit is stated explicitly."""
    settings = limits(resources)
    return {"CpuQuota": _NO_LIMIT, **settings, "PidsLimit": resources.pids or _NO_LIMIT}


def _pid_mode(config: ContainerConfig, of_pod: str) -> str:
    match config.namespaces.pid:
        case "node":
            return "host"
        case "pod":
            return of_pod
        case "target":
            return f"container:{config.namespaces.target.rpartition('://')[2]}"
        case _:
            return ""


def _mount(mount: Mount) -> dict[str, Any]:
    if mount.image:
        options = {"Subpath": mount.image_sub_path} if mount.image_sub_path else {}
        return {"Type": "image", "Source": mount.image, "Target": mount.target, "ImageOptions": options}
    return {
        "Type": "bind",
        "Source": str(mount.source),
        "Target": mount.target,
        "ReadOnly": mount.is_read_only,
        "BindOptions": {"Propagation": _PROPAGATION[mount.propagation]},
    }


def _user(security: ContainerSecurity) -> str:
    user = str(security.user) if security.user is not None else security.username
    if security.group is None:
        return user
    return f"{user or 0}:{security.group}"


def _options(security: ContainerSecurity, seccomp: str | None) -> list[str]:
    options = ["no-new-privileges"] if security.may_not_gain_privileges else []
    if security.seccomp.type == "Unconfined":
        options.append("seccomp=unconfined")
    elif seccomp is not None:
        options.append(f"seccomp={seccomp}")
    options += _apparmor(security.apparmor)
    return options + [f"label={name}:{value}" for name, value in security.selinux.items() if value]


def _apparmor(profile: SecurityProfile) -> list[str]:
    if profile.type in ("", "RuntimeDefault"):
        return []
    return [f"apparmor={profile.local if profile.type == 'Localhost' else 'unconfined'}"]


def _capability(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def labels_of(inspected: Inspected) -> Mapping[str, str]:
    """Return the labels of a container from a list or an inspect response."""
    return inspected.get("Labels") or (inspected.get("Config") or {}).get("Labels") or {}


def uid(inspected: Inspected) -> str:
    return labels_of(inspected).get(labels.POD_UID, "")


def is_sandbox(inspected: Inspected) -> bool:
    return labels_of(inspected).get(TYPE) == POD


def state(word: str) -> str:
    return _STATES.get(word, contract.UNKNOWN)


def sandbox(inspected: Inspected) -> ObservedSandbox:
    state = inspected["State"]
    networks = (inspected.get("NetworkSettings") or {}).get("Networks") or {}
    ips = [network.get(key) for network in networks.values() for key in ("IPAddress", "GlobalIPv6Address")]
    return ObservedSandbox(
        id=inspected["Id"],
        attempt=_attempt(inspected),
        is_ready=state["Status"] in _BEGUN,
        created_at=_time(inspected.get("Created", "")),
        ips=[ip for ip in ips if ip],
        pid=state.get("Pid") or 0,
    )


def container(inspected: Inspected) -> ObservedContainer:
    object_state, container_labels = inspected["State"], labels_of(inspected)
    code = int(object_state.get("ExitCode") or 0)
    present, created_at = state(object_state["Status"]), _time(inspected.get("Created", ""))
    reason = exit_reason(contract.OOM_KILLED if object_state.get("OOMKilled") else "", code)
    finished_at = _time(object_state.get("FinishedAt", ""))
    if present == contract.CREATED and code:  # The engine reports the failure of a start in this way.
        present, reason, finished_at = contract.EXITED, contract.START_ERROR, created_at
    return ObservedContainer(
        id=inspected["Id"],
        sandbox=container_labels.get(SANDBOX, ""),
        name=container_labels.get(labels.CONTAINER_NAME, ""),
        attempt=_attempt(inspected),
        state=present,
        image=container_labels.get(labels.IMAGE, ""),
        image_ref=inspected.get("Image", ""),
        created_at=created_at,
        started_at=_time(object_state.get("StartedAt", "")),
        finished_at=finished_at,
        exit_code=code,
        reason=reason,
        message=object_state.get("Error") or "",
        log_path=container_labels.get(LOG_PATH, ""),
        user=_container_user(inspected),
    )


def _container_user(inspected: Inspected) -> ContainerUser | None:
    """Return the user of the container if uid and gid are numbers. Otherwise the user is unknown, as the engine does
    not report how it resolves names."""
    uid, _, gid = ((inspected.get("Config") or {}).get("User") or "").partition(":")
    more = (inspected.get("HostConfig") or {}).get("GroupAdd") or []
    try:
        numbers = [parse_id(text) for text in (uid, gid, *more)]
    except BadUser:
        return None
    ids = [number for number in numbers if number is not None]
    if len(ids) < len(numbers):
        return None
    return ContainerUser(ids[0], ids[1], tuple(dict.fromkeys(ids[1:])))


def _attempt(inspected: Inspected) -> int:
    text = labels_of(inspected).get(ATTEMPT, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else 0


def _time(text: str) -> float:
    return times.parse_time(text) if text and text != _ZERO_TIME else 0.0


def image(inspected: Inspected, pinned: str = "") -> ImageInfo:
    """Convert an image from a list or an inspect response. `pinned` is the name of an image that must be kept."""
    config = inspected.get("Config") or {}
    names = [name for name in inspected.get("RepoTags") or () if name != "<none>:<none>"]
    digests = [name for name in inspected.get("RepoDigests") or () if name != "<none>@<none>"]
    return ImageInfo(
        id=inspected["Id"],
        names=names,
        digests=digests,
        size=int(inspected.get("Size") or 0),
        user=config.get("User") or "",
        volumes=list(config.get("Volumes") or ()),
        is_pinned=pinned in names,
    )


def layers(inspected: Inspected) -> Sequence[Path]:
    """Return the directories with the unpacked layers of an image, the lowest first."""
    driver = inspected.get("GraphDriver") or {}
    if driver.get("Name") != "overlay2":
        message = "image volumes need Docker 28 or the storage driver overlay2"
        raise RuntimeFailure("CreateContainerError", f"failed to mount image volume: {message}")
    data = driver.get("Data") or {}
    lower = [directory for directory in (data.get("LowerDir") or "").split(":") if directory]
    return [Path(directory) for directory in [*reversed(lower), data["UpperDir"]]]


def cpu_s(stats: Inspected) -> float:
    return float((stats.get("cpu_stats") or {}).get("cpu_usage", {}).get("total_usage") or 0) / 1e9


def usage(name: str, stats: Inspected, cores: float) -> ContainerUsage:
    memory = stats.get("memory_stats") or {}
    parts = memory.get("stats") or {}
    idle = parts.get("total_inactive_file", parts.get("inactive_file", 0))
    return ContainerUsage(
        name=name,
        cpu_cores=cores,
        memory_bytes=max(int(memory.get("usage") or 0) - idle, 0),
        cpu_s=cpu_s(stats),
        memory_rss_bytes=parts.get("total_rss", parts.get("anon")),
        page_faults=parts.get("total_pgfault", parts.get("pgfault")),
        major_page_faults=parts.get("total_pgmajfault", parts.get("pgmajfault")),
        processes=(stats.get("pids_stats") or {}).get("current"),
    )
