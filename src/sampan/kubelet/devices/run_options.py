"""Container configuration that results from allocated devices (`DeviceRunContainerOptions` in
`pkg/kubelet/cm/devicemanager`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.kubelet.plugin_registry.calls import Message
from sampan.runtimes.config import Device, Mount


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRunOptions:
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    devices: Sequence[Device] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: Sequence[str] = ()


NOTHING = DeviceRunOptions()


def merge_options(parts: Iterable[DeviceRunOptions]) -> DeviceRunOptions:
    """Merge the parts; the first one takes precedence."""
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, Device] = {}
    names: dict[str, None] = {}
    for part in parts:
        env = {**part.env, **env}
        annotations = {**part.annotations, **annotations}
        mounts = {mount.target: mount for mount in part.mounts} | mounts
        devices = {device.path: device for device in part.devices} | devices
        names |= dict.fromkeys(part.cdi_devices)
    return DeviceRunOptions(
        env=env,
        mounts=list(mounts.values()),
        devices=list(devices.values()),
        annotations=annotations,
        cdi_devices=list(names),
    )


def options_from_response(response: Message) -> DeviceRunOptions:
    """Return the configuration from the response of a device plug-in."""
    return DeviceRunOptions(
        env=dict(response.envs),
        mounts=[
            Mount(source=Path(item.host_path), target=item.container_path, is_read_only=item.read_only)
            for item in response.mounts
        ],
        devices=[
            Device(host_path=item.host_path, path=item.container_path, permissions=item.permissions)
            for item in response.devices
        ],
        annotations=dict(response.annotations),
        cdi_devices=[item.name for item in response.cdi_devices],
    )
