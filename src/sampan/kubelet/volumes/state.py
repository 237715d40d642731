"""Desired and actual state of volumes, without side effects."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.semantics.pods import all_containers, init_and_main_containers
from sampan.api.types.core_v1 import Pod, PodSpec, Volume
from sampan.kubelet.objects import ObjectKey, references
from sampan.kubelet.volumes.contract import DeviceMount, NodeVolumePlugin, ReadyVolume


class PodVolumeKey(NamedTuple):
    """A volume of a pod by its name in the pod. A volume reconstructed from disk, whose name in the pod is unknown, has
    a name with a slash: plugin and name on disk. An empty UID means a shared mount with its unique name.
    """

    uid: str
    name: str


@dataclass(slots=True, kw_only=True, eq=False)
class DesiredPod:
    pod: Pod
    volumes: dict[str, Volume]
    """The volumes that containers use."""
    mounts: set[str]
    devices: set[str]
    inner: dict[str, str] = field(default_factory=dict)
    """Names on disk by names in the pod, for the volumes whose name on disk is known."""
    claim_errors: dict[str, str] = field(default_factory=dict)
    """Errors of claims at the last attempt, by volume."""


@dataclass(slots=True, kw_only=True, eq=False)
class ActualVolume:
    plugin: NodeVolumePlugin
    inner: str
    device: DeviceMount | None = None
    ready: ReadyVolume | None = None
    """The volume that is set up; None during the setup or after an incomplete setup, which may have to be torn down."""
    group: int | None = None
    """Supplemental group that pods need, according to an annotation of the persistent volume."""


class ActualState:
    """The volumes that are or may be set up, indexed by pod and by shared mount."""

    def __init__(self) -> None:
        self._volumes: dict[PodVolumeKey, ActualVolume] = {}
        self._of_pod: dict[str, set[PodVolumeKey]] = {}
        self._users: dict[str, set[PodVolumeKey]] = {}
        self._devices: dict[str, tuple[NodeVolumePlugin, DeviceMount]] = {}
        """Shared mounts that are or may be mounted."""

    def get(self, key: PodVolumeKey) -> ActualVolume | None:
        return self._volumes.get(key)

    def ready(self, key: PodVolumeKey) -> ReadyVolume | None:
        volume = self._volumes.get(key)
        return volume.ready if volume is not None else None

    def put(self, key: PodVolumeKey, volume: ActualVolume) -> None:
        self._volumes[key] = volume
        self._of_pod.setdefault(key.uid, set()).add(key)
        if volume.device is not None:
            self._users.setdefault(volume.device.unique_name, set()).add(key)
            self.put_device(volume.plugin, volume.device)

    def remove(self, key: PodVolumeKey) -> None:
        volume = self._volumes.pop(key, None)
        keys = self._of_pod.get(key.uid, set())
        keys.discard(key)
        if not keys:
            self._of_pod.pop(key.uid, None)
        if volume is not None and volume.device is not None:
            self._users.get(volume.device.unique_name, set()).discard(key)

    def users(self, unique_name: str) -> Sequence[PodVolumeKey]:
        """Return the volumes that use a shared mount."""
        return sorted(self._users.get(unique_name, ()))

    def put_device(self, plugin: NodeVolumePlugin, device: DeviceMount) -> None:
        self._devices[device.unique_name] = plugin, device

    def device(self, unique_name: str) -> tuple[NodeVolumePlugin, DeviceMount] | None:
        return self._devices.get(unique_name)

    def idle_devices(self) -> Sequence[str]:
        """Return the shared mounts that no pod uses."""
        return [unique_name for unique_name in self._devices if not self._users.get(unique_name)]

    def forget_device(self, unique_name: str) -> None:
        self._devices.pop(unique_name, None)
        if not self._users.get(unique_name):
            self._users.pop(unique_name, None)

    def volumes_of_pod(self, uid: str) -> Sequence[PodVolumeKey]:
        return sorted(self._of_pod.get(uid, ()))

    def pods(self) -> Sequence[str]:
        return sorted(self._of_pod)

    def list_volumes_in_use(self) -> list[str]:
        return sorted(device.unique_name for _, device in self._devices.values() if device.is_attachable)


def desired_pod(pod: Pod) -> DesiredPod:
    mounts = {mount.name for container in all_containers(pod.spec) for mount in container.volumeMounts}
    devices = {device.name for container in all_containers(pod.spec) for device in container.volumeDevices}
    volumes = {volume.name: volume for volume in pod.spec.volumes if volume.name in mounts | devices}
    return DesiredPod(pod=pod, volumes=volumes, mounts=mounts, devices=devices)


def volumes_with_object(desired: DesiredPod, key: ObjectKey) -> list[str]:
    """Return the volumes that contain data of the object."""
    pod = desired.pod
    return [name for name, volume in desired.volumes.items() if key in set(references(_with_only_volume(pod, volume)))]


def _with_only_volume(pod: Pod, volume: Volume) -> Pod:
    return Pod(metadata=pod.metadata, spec=PodSpec(volumes=[volume]))


def downward_api_volumes(desired: DesiredPod) -> list[str]:
    """Return the names of the volumes that contain fields of the pod, which change with it."""
    return [name for name, volume in desired.volumes.items() if _projects_pod_fields(volume)]


def _projects_pod_fields(volume: Volume) -> bool:
    sources = volume.projected.sources or () if volume.projected is not None else ()
    return volume.downwardAPI is not None or any(source.downwardAPI is not None for source in sources)


def trust_bundle_volumes(desired: DesiredPod) -> list[str]:
    """Return the names of the volumes that contain trust anchors of ClusterTrustBundles."""
    return [
        name
        for name, volume in desired.volumes.items()
        if volume.projected is not None
        and any(source.clusterTrustBundle is not None for source in volume.projected.sources or ())
    ]


def has_downward_api_change(old: Pod, new: Pod) -> bool:
    """Whether fields of the pod that the downward API exposes have changed."""
    before, after = old.metadata, new.metadata
    if before.labels != after.labels or before.annotations != after.annotations:
        return True
    pairs = zip(init_and_main_containers(old.spec), init_and_main_containers(new.spec), strict=False)
    return any(old_container.resources != new_container.resources for old_container, new_container in pairs)


class ChangeNotifier:
    """Events by pod UID; `notify` wakes up all tasks that wait for a change of the pod."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def get_event(self, uid: str) -> asyncio.Event:
        return self._events.setdefault(uid, asyncio.Event())

    def notify(self, uid: str) -> None:
        event = self._events.pop(uid, None)
        if event is not None:
            event.set()
