"""The status and configuration of a CRI runtime: whether it can run pods, its handlers, and its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.runtimes.contract import Handler, RuntimeStatus
from sampan.runtimes.cri.client import CriClient, CriError

NETWORK_READY, RUNTIME_READY = "NetworkReady", "RuntimeReady"
_FAULTS = {NETWORK_READY: "container runtime network not ready", RUNTIME_READY: "container runtime not ready"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CriSetting:
    """Settings of the engine, which its administrator has chosen; None or empty if the engine does not report them."""

    network_directory: Path | None = None
    """The directory in which the engine looks for its CNI configuration."""
    plugin_directories: Sequence[Path] = ()
    has_systemd_groups: bool = False


async def setting_of(endpoint: str) -> CriSetting:
    """Return the settings of the runtime at a socket."""
    client = CriClient(endpoint)
    try:
        return await ask_setting(client)
    finally:
        await client.close()


async def ask_setting(client: CriClient) -> CriSetting:
    answer = await client.runtime("Status", client.schema.StatusRequest(verbose=True))
    return setting(dict(answer.info), has_systemd=await _told_systemd(client))


async def _told_systemd(client: CriClient) -> bool | None:
    """Return whether the cgroup driver is systemd, or None if the runtime does not report it (containerd before
    2.0)."""
    try:
        return int((await client.runtime("RuntimeConfig")).linux.cgroup_driver) == 0
    except CriError as error:
        if error.is_unknown:
            return None
        raise


def setting(info: Mapping[str, str], *, has_systemd: bool | None) -> CriSetting:
    """Return the settings in the verbose status of containerd."""
    network, config = _json(info.get("cniconfig")), _json(info.get("config"))
    config_directory = network.get("PluginConfDir")
    engine = config.get("containerd") or {}
    usual = (engine.get("runtimes") or {}).get(engine.get("defaultRuntimeName")) or {}
    if has_systemd is None:
        has_systemd = bool((usual.get("options") or {}).get("SystemdCgroup"))
    return CriSetting(
        network_directory=Path(config_directory) if config_directory else None,
        plugin_directories=tuple(Path(directory) for directory in network.get("PluginDirs") or ()),
        has_systemd_groups=has_systemd,
    )


def status(answer: Any) -> RuntimeStatus:
    """Convert a status response to a runtime status."""
    conditions = {item.type: item for item in answer.status.conditions}
    bad = [type for type in _FAULTS if _is_bad(conditions, type)]
    faults = [f"{_FAULTS[type]}: {_condition(conditions.get(type))}" for type in bad]
    handlers = [
        Handler(
            name=item.name,
            has_recursive_read_only=item.features.recursive_read_only_mounts,
            has_user_namespaces=item.features.user_namespaces,
        )
        for item in sorted(answer.runtime_handlers, key=lambda item: str(item.name))
    ]
    features = answer.features.supplemental_groups_policy if answer.HasField("features") else None
    return RuntimeStatus(faults=faults, handlers=handlers, heeds_groups_policy=features)


def is_network_ready(answer: Any) -> bool:
    return not _is_bad({condition.type: condition for condition in answer.status.conditions}, NETWORK_READY)


def _is_bad(conditions: Mapping[str, Any], type: str) -> bool:
    return type not in conditions or not conditions[type].status


def _condition(found: Any) -> str:
    if found is None:
        return "<nil>"
    return f"{found.type}={str(found.status).lower()} reason:{found.reason} message:{found.message}"


def _json(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
