"""The systemd unit of a cluster. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = "# Written by `sampan service install`; `sampan service uninstall` removes it."
_STOP_S = 120
_WITHOUT_CONTAINERS = (
    "# The nodes of this cluster run no containers, so that it needs few rights.",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
    "PrivateTmp=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "RestrictSUIDSGID=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "LockPersonality=yes",
    "SystemCallArchitectures=native",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
)
_WITH_CONTAINERS = (
    "# Nodes create namespaces, mounts, cgroups and network rules.",
    "# Restrictions of system calls and mounts would apply to their pods, too.",
    "Delegate=yes",
    "TasksMax=infinity",
    "OOMScoreAdjust=-500",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    cluster: str
    data_dir: Path
    command: Sequence[str]
    """The program with its absolute path, and its arguments."""
    is_user: bool
    runs_containers: bool
    writes_elsewhere: bool
    """Whether flags name files outside of the data directory that the cluster writes."""


def unit_text(settings: ServiceSettings) -> str:
    target = "default.target" if settings.is_user else "multi-user.target"
    online = [] if settings.is_user else ["Wants=network-online.target", "After=network-online.target"]
    lines = [
        MARK,
        "[Unit]",
        f"Description=Sampan cluster {settings.cluster}",
        *online,
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(map(quote, settings.command))}",
        *(f"Environment={quote(f'{name}={value}')}" for name, value in _environment()),
        "Restart=on-failure",
        "RestartSec=2",
        "KillMode=mixed",
        f"TimeoutStopSec={_STOP_S}",
        "LimitNOFILE=1048576",
        "UMask=0077",
        *_restrictions(settings),
        "",
        "[Install]",
        f"WantedBy={target}",
    ]
    return "\n".join(lines) + "\n"


def _environment() -> list[tuple[str, str]]:
    """Return the variables of this process that decide where the files of a cluster are."""
    return [(name, os.environ[name]) for name in ("SAMPAN_HOME", "XDG_DATA_HOME") if os.environ.get(name)]


def _restrictions(settings: ServiceSettings) -> list[str]:
    if settings.runs_containers:
        user_lines = [line for line in _WITH_CONTAINERS if not line.startswith("OOMScoreAdjust")]
        return user_lines if settings.is_user else list(_WITH_CONTAINERS)
    lines = [*_WITHOUT_CONTAINERS]
    if not settings.writes_elsewhere:
        lines += ["ProtectSystem=strict", f"ReadWritePaths={quote(str(settings.data_dir))}"]
    if settings.is_user:  # the manager of a user may not change these
        lines = [line for line in lines if not line.startswith(("CapabilityBoundingSet", "ProtectClock"))]
    return lines


def quote(word: str) -> str:
    """Return a word for a line of a unit, where %, $, quotes and backslashes have a meaning."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t")
    is_plain = bool(word) and not any(letter.isspace() or letter in "'\"\\;" for letter in word)
    return escaped if is_plain else f'"{escaped}"'
