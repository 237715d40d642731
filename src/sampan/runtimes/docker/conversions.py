"""Convert responses of the Docker Engine to the types of the pod table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.api import times
from sampan.runtimes import contract, labels
from sampan.runtimes.contract import ContainerUser, ImageInfo, RuntimeFailure, Usage
from sampan.runtimes.docker import messages
from sampan.runtimes.pod_table import ObservedContainer, ObservedSandbox, exit_reason
from sampan.runtimes.users import BadUser, parse_id

_STATES = {"created": contract.CREATED, "exited": contract.EXITED, "dead": contract.EXITED}
_STATES |= dict.fromkeys(("running", "paused", "restarting", "removing"), contract.RUNNING)
_NEVER = "0001-01-01T00:00:00Z"
_BEGUN = ("running", "paused", "restarting")

Inspected = Mapping[str, Any]


def labels_of(inspected: Inspected) -> Mapping[str, str]:
    """Return the labels of a container from a list or an inspect response."""
    return inspected.get("Labels") or (inspected.get("Config") or {}).get("Labels") or {}


def uid(inspected: Inspected) -> str:
    return labels_of(inspected).get(labels.POD_UID, "")


def is_sandbox(inspected: Inspected) -> bool:
    return labels_of(inspected).get(messages.TYPE) == messages.POD


def state(word: str) -> str:
    return _STATES.get(word, contract.UNKNOWN)


def sandbox(inspected: Inspected) -> ObservedSandbox:
    about = inspected["State"]
    networks = (inspected.get("NetworkSettings") or {}).get("Networks") or {}
    ips = [network.get(key) for network in networks.values() for key in ("IPAddress", "GlobalIPv6Address")]
    return ObservedSandbox(
        id=inspected["Id"],
        attempt=_attempt(inspected),
        is_ready=about["Status"] in _BEGUN,
        created_at=_time(inspected.get("Created", "")),
        ips=[ip for ip in ips if ip],
        pid=about.get("Pid") or 0,
    )


def container(inspected: Inspected) -> ObservedContainer:
    about, container_labels = inspected["State"], labels_of(inspected)
    code = int(about.get("ExitCode") or 0)
    return ObservedContainer(
        id=inspected["Id"],
        sandbox=container_labels.get(messages.SANDBOX, ""),
        name=container_labels.get(labels.CONTAINER_NAME, ""),
        attempt=_attempt(inspected),
        state=state(about["Status"]),
        image=container_labels.get(labels.IMAGE, ""),
        image_ref=inspected.get("Image", ""),
        created_at=_time(inspected.get("Created", "")),
        started_at=_time(about.get("StartedAt", "")),
        finished_at=_time(about.get("FinishedAt", "")),
        exit_code=code,
        reason=exit_reason(contract.OOM_KILLED if about.get("OOMKilled") else "", code),
        message=about.get("Error") or "",
        log_path=container_labels.get(messages.LOG_PATH, ""),
        user=_user(inspected),
    )


def _user(inspected: Inspected) -> ContainerUser | None:
    """Return the user if uid and gid are numbers. Otherwise it is unknown, as the engine does not report how it
    resolves names."""
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
    text = labels_of(inspected).get(messages.ATTEMPT, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else 0


def _time(text: str) -> float:
    return times.parse_time(text) if text and text != _NEVER else 0.0


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


def usage(name: str, stats: Inspected, cores: float) -> Usage:
    memory = stats.get("memory_stats") or {}
    parts = memory.get("stats") or {}
    idle = parts.get("total_inactive_file", parts.get("inactive_file", 0))
    return Usage(
        name=name,
        cpu_cores=cores,
        memory_bytes=max(int(memory.get("usage") or 0) - idle, 0),
        cpu_s=cpu_s(stats),
        memory_rss_bytes=parts.get("total_rss", parts.get("anon")),
        page_faults=parts.get("total_pgfault", parts.get("pgfault")),
        major_page_faults=parts.get("total_pgmajfault", parts.get("pgmajfault")),
        processes=(stats.get("pids_stats") or {}).get("current"),
    )
