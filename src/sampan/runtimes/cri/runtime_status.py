"""The status and configuration of a CRI runtime: whether it can run pods, its handlers, and its settings."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.runtimes.contract import RuntimeFailure, RuntimeHandler, RuntimeStatus
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.network import EngineNetwork

NETWORK_READY, RUNTIME_READY = "NetworkReady", "RuntimeReady"
_SNAPSHOTTER = "overlayfs"
_CONDITION_ERRORS = {NETWORK_READY: "container runtime network not ready", RUNTIME_READY: "container runtime not ready"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CriSettings:
    """Settings of the engine, which its administrator has chosen; None or empty if the engine does not report them."""

    network_directory: Path | None = None
    """The directory in which the engine looks for its CNI configuration."""
    plugin_directories: Sequence[Path] = ()
    has_systemd_cgroups: bool = False
    snapshotter: str = _SNAPSHOTTER
    """The plugin of containerd that unpacks images."""


async def settings_of(endpoint: str) -> CriSettings:
    """Return the settings of the runtime at a socket."""
    client = CriClient(endpoint)
    try:
        return await read_settings(client)
    finally:
        await client.close()


async def read_settings(client: CriClient) -> CriSettings:
    response = await client.runtime("Status", client.schema.StatusRequest(verbose=True))
    return parse_settings(dict(response.info), has_systemd=await _uses_systemd_cgroups(client))


async def _uses_systemd_cgroups(client: CriClient) -> bool | None:
    """Return whether the cgroup driver is systemd, or None if the runtime does not report it (containerd before
    2.0)."""
    try:
        return int((await client.runtime("RuntimeConfig")).linux.cgroup_driver) == 0
    except CriError as error:
        if error.is_unknown:
            return None
        raise


def parse_settings(info: Mapping[str, str], *, has_systemd: bool | None) -> CriSettings:
    """Return the settings in the verbose status of containerd."""
    network, config = _json(info.get("cniconfig")), _json(info.get("config"))
    config_directory = network.get("PluginConfDir")
    engine = config.get("containerd") or {}
    usual = (engine.get("runtimes") or {}).get(engine.get("defaultRuntimeName")) or {}
    if has_systemd is None:
        has_systemd = bool((usual.get("options") or {}).get("SystemdCgroup"))
    return CriSettings(
        network_directory=Path(config_directory) if config_directory else None,
        plugin_directories=tuple(Path(directory) for directory in network.get("PluginDirs") or ()),
        has_systemd_cgroups=has_systemd,
        snapshotter=str(engine.get("snapshotter") or _SNAPSHOTTER),
    )


def status(response: Any) -> RuntimeStatus:
    """Convert a status response to a runtime status."""
    conditions = {item.type: item for item in response.status.conditions}
    bad = [type for type in _CONDITION_ERRORS if _is_bad(conditions, type)]
    errors = [f"{_CONDITION_ERRORS[type]}: {_condition(conditions.get(type))}" for type in bad]
    handlers = [
        RuntimeHandler(
            name=item.name,
            has_recursive_read_only=item.features.recursive_read_only_mounts,
            has_user_namespaces=item.features.user_namespaces,
        )
        for item in sorted(response.runtime_handlers, key=lambda item: str(item.name))
    ]
    features = response.features.supplemental_groups_policy if response.HasField("features") else None
    return RuntimeStatus(
        errors=errors,
        handlers=handlers,
        heeds_groups_policy=features,
        has_mount_options=response.features.mount_options,
    )


def is_network_ready(response: Any) -> bool:
    return not _is_bad({condition.type: condition for condition in response.status.conditions}, NETWORK_READY)


def _is_bad(conditions: Mapping[str, Any], type: str) -> bool:
    return type not in conditions or not conditions[type].status


def _condition(condition: Any) -> str:
    if condition is None:
        return "<nil>"
    return f"{condition.type}={str(condition.status).lower()} reason:{condition.reason} message:{condition.message}"


def _json(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


log = logging.getLogger(__name__)

_POLLS, _POLL_S = 200, 0.05


class PodCidrUpdater:
    """Passes pod CIDRs to the engine. If `network` is None, the CNI configuration of the engine is left unchanged."""

    def __init__(self, *, client: CriClient, network: EngineNetwork | None) -> None:
        self._client, self._network = client, network
        self._cidrs: Sequence[str] = ()
        self._applied: Sequence[str] = ()
        """The pod CIDRs that the engine uses."""
        self._lock = asyncio.Lock()

    def use(self, cidrs: Sequence[str]) -> None:
        self._cidrs = tuple(cidrs)

    async def ensure(self) -> None:
        """Apply changed pod CIDRs to the engine, and wait until its network is ready."""
        async with self._lock:
            cidrs = self._cidrs
            if not cidrs or cidrs == self._applied:
                return
            if self._network is not None:
                await self._network.apply(cidrs)
                await self._wait_until_ready()
            await self._send_pod_cidrs(",".join(cidrs))
            self._applied = cidrs

    async def _wait_until_ready(self) -> None:
        for _ in range(_POLLS):
            if is_network_ready(await self._client.runtime("Status")):
                return
            await asyncio.sleep(_POLL_S)
        raise RuntimeFailure("NetworkPluginNotReady", "the container runtime does not load the CNI configuration")

    async def _send_pod_cidrs(self, cidrs: str) -> None:
        """Send the pod CIDRs to the engine, which inserts them if it generates its CNI configuration from a
        template."""
        cri = self._client.schema
        config = cri.RuntimeConfig(network_config=cri.NetworkConfig(pod_cidr=cidrs))
        try:
            await self._client.runtime("UpdateRuntimeConfig", cri.UpdateRuntimeConfigRequest(runtime_config=config))
        except CriError as error:
            log.warning("cannot pass the pod CIDR to the container runtime: %s", error)
