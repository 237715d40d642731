"""Volumes whose files are generated from API objects: configMap, secret and downwardAPI volumes, and the base class
that projected volumes share with them (`pkg/volume/configmap`, `pkg/volume/secret`, `pkg/volume/downwardapi`).
"""

from __future__ import annotations

import os
import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sampan.api.semantics.pods import all_containers, init_and_main_containers
from sampan.api.types.core_v1 import (
    ConfigMap,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    Container,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    KeyToPath,
    Pod,
    ProjectedVolumeSource,
    Secret,
    SecretVolumeSource,
)
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.container_config.downward import DownwardApiContext, FieldUnknown, field_value, resource_value
from sampan.kubelet.objects import NotSynced
from sampan.kubelet.volumes import atomic
from sampan.kubelet.volumes.atomic import FileProjection, Payload
from sampan.kubelet.volumes.contract import ReadyVolume, VolumeOperationError, VolumePluginBase, VolumeSpec
from sampan.kubelet.volumes.ownership import give_to_group
from sampan.kubelet.volumes.plugins.empty_dir import DISK, MEMORY, MediumDirectories
from sampan.kubelet.volumes.volume_host import VolumeHost
from sampan.runtimes.safe_paths import UnsafePath, opened_root

_EMPTY_CONTEXT = DownwardApiContext()
_WRAPPED = "wrapped_"


class FileDefaults(NamedTuple):
    """The properties of the files of a volume that have none of their own."""

    mode: int | None
    user: int | None = None
    has_item_users: bool = False
    """Whether items may have users of their own."""

    def user_of(self, own_user: int | None) -> int | None:
        """Return the user of a file that asks for a user itself, or for none."""
        return own_user if own_user is not None and self.has_item_users else self.user


def files_of_config_map(
    config_map: ConfigMap, items: Sequence[KeyToPath], defaults: FileDefaults, *, optional: bool
) -> dict[str, FileProjection]:
    data = {name: text.encode() for name, text in config_map.data.items()} | dict(config_map.binaryData)
    return _select_files(data, items, defaults, optional, "configmap references non-existent config key")


def files_of_secret(
    secret: Secret, items: Sequence[KeyToPath], defaults: FileDefaults, *, optional: bool
) -> dict[str, FileProjection]:
    return _select_files(dict(secret.data), items, defaults, optional, "references non-existent secret key")


def _select_files(
    data: Mapping[str, bytes], items: Sequence[KeyToPath], defaults: FileDefaults, optional: bool, missing: str
) -> dict[str, FileProjection]:
    mode = default_mode(defaults.mode)
    if not items:
        return {name: FileProjection(content, mode, defaults.user) for name, content in data.items()}
    files = {}
    for item in items:
        if item.key in data:
            files[item.path] = _make_file(data[item.key], item, mode, defaults)
        elif not optional:
            raise VolumeOperationError(f"{missing}: {item.key}")
    return files


def _make_file(
    content: bytes, item: KeyToPath | DownwardAPIVolumeFile, mode: int, defaults: FileDefaults
) -> FileProjection:
    return FileProjection(content, mode if item.mode is None else item.mode, defaults.user_of(item.user))


def files_of_downward_api(
    pod: Pod, items: Sequence[DownwardAPIVolumeFile], defaults: FileDefaults, allocatable: Mapping[str, str]
) -> dict[str, FileProjection]:
    mode = default_mode(defaults.mode)
    files, errors = {}, []
    for item in items:
        try:
            text = _downward_api_value(pod, item, allocatable)
        except (FieldUnknown, VolumeOperationError) as error:
            errors.append(str(error))
            continue
        path = str(PurePosixPath(item.path))
        files[path] = _make_file(text.encode(), item, mode, defaults)
    raise_errors(errors)
    return files


def _downward_api_value(pod: Pod, item: DownwardAPIVolumeFile, allocatable: Mapping[str, str]) -> str:
    if item.fieldRef is not None:
        return field_value(pod, item.fieldRef.fieldPath, _EMPTY_CONTEXT)
    if item.resourceFieldRef is not None:
        selector = item.resourceFieldRef
        return resource_value(_container(pod, selector.containerName), selector, allocatable)
    return ""


def _container(pod: Pod, name: str) -> Container:
    containers: list[Container] = init_and_main_containers(pod.spec)
    for container in containers:
        if container.name == name:
            return container
    raise VolumeOperationError(f"container {name} not found")


def default_mode(mode: int | None) -> int:
    if mode is None:
        raise VolumeOperationError("no defaultMode used, not even the default value for it")
    return mode


def raise_errors(messages: Sequence[str]) -> None:
    """Raise one VolumeOperationError for all errors, if there are any."""
    distinct = list(dict.fromkeys(messages))
    if distinct:
        raise VolumeOperationError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")


class FilesPlugin(VolumePluginBase):
    """Base class of plugins whose volumes contain generated files. Subclasses provide a name and a payload. The files
    are replaced atomically and are read-only for the pod.
    """

    name: str
    medium = MEMORY

    def __init__(self, host: VolumeHost) -> None:
        self.host, self._directories = host, MediumDirectories(host)

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        payload, again_s = await self.payload(spec)
        path = self.host.layout.volume(spec.pod.metadata.uid, self.name, spec.inner)
        await run_in_thread(self._write, spec, path, payload)
        return ReadyVolume(path=path, is_read_only=True, again_s=again_s)

    def defaults(
        self,
        source: ConfigMapVolumeSource | DownwardAPIVolumeSource | ProjectedVolumeSource | SecretVolumeSource,
    ) -> FileDefaults:
        has_users = self.host.config.feature_gates.is_enabled("AtomicWriteVolumeUserFields")
        return FileDefaults(source.defaultMode, source.defaultUser if has_users else None, has_users)

    async def payload(self, spec: VolumeSpec) -> tuple[Payload, float | None]:
        """Return the files of the volume, and the seconds until they have to be updated, or None."""
        raise NotImplementedError

    def _write(self, spec: VolumeSpec, path: Path, payload: Payload) -> None:
        uid = spec.pod.metadata.uid
        is_new = self._directories.make(uid, f"{_WRAPPED}{spec.inner}", path, self.medium)
        try:
            _make_mount_points(path, nested_mount_points(spec.pod, spec.outer))
            atomic.write(path, payload, now=self.host.clock.now(), set_owner=lambda: self._set_owner(spec, path))
        except BaseException:
            if is_new:
                self._remove(uid, spec.inner)
            raise

    def _set_owner(self, spec: VolumeSpec, path: Path) -> None:
        give_to_group(path, spec.security.fsGroup, is_read_only=True)

    async def tear_down(self, uid: str, inner: str) -> None:
        await run_in_thread(self._remove, uid, inner)

    def _remove(self, uid: str, inner: str) -> None:
        self._directories.remove(uid, f"{_WRAPPED}{inner}", self.host.layout.volume(uid, self.name, inner))


def _make_mount_points(volume: Path, mount_points: Sequence[str]) -> None:
    with opened_root(volume) as root:
        for mount_point in mount_points:
            try:
                os.close(root.directory(mount_point.split("/"), mode=0o755))
            except UnsafePath as error:
                raise VolumeOperationError(f"cannot create the mount point {mount_point[:200]}: {error}") from None


def nested_mount_points(pod: Pod, volume: str) -> list[str]:
    """Return the paths, relative to this volume, at which other volumes are mounted inside it. Their directories have
    to be created in advance, because the volume is read-only. A mount path that leads out of the volume by `..` is
    inside the volume only if it leads back into it. Pure.
    """
    paths: dict[str, None] = {}
    for container in all_containers(pod.spec):
        targets = sorted(_target_parts(mount.mountPath) for mount in container.volumeMounts)
        for mount in container.volumeMounts:
            if mount.name == volume and not mount.subPath:
                paths |= dict.fromkeys(_find_nested_targets(_target_parts(mount.mountPath), targets))
    return list(paths)


_Parts = tuple[str, ...]


def _target_parts(path: str) -> _Parts:
    """Return the components of a path in the container as runtimes resolve it: from the root directory, where `..`
    stays in the root."""
    return tuple(part for part in posixpath.normpath(f"/{path}").split("/") if part)


def _find_nested_targets(target: _Parts, targets: Sequence[_Parts]) -> Iterator[str]:
    """Yield the paths relative to `target` of the outermost of the sorted targets below it."""
    position = bisect_right(targets, target) if target else len(targets)
    while position < len(targets) and targets[position][: len(target)] == target:
        other = targets[position]
        yield "/".join(other[len(target) :])
        position = bisect_left(targets, (*other[:-1], f"{other[-1]}\0"), position)


class ConfigMapPlugin(FilesPlugin):
    """configMap volumes: the keys of a config map as files on disk."""

    name = "kubernetes.io/configmap"
    medium = DISK

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.configMap is not None

    async def payload(self, spec: VolumeSpec) -> tuple[Payload, float | None]:
        source = spec.volume.configMap or ConfigMapVolumeSource()
        return await config_map_files(self.host, spec, source, self.defaults(source)), None


async def config_map_files(
    host: VolumeHost, spec: VolumeSpec, source: ConfigMapVolumeSource | ConfigMapProjection, defaults: FileDefaults
) -> dict[str, FileProjection]:
    optional = bool(source.optional)
    try:
        config_map = await host.objects.config_map(spec.pod.metadata.namespace, source.name)
    except NotSynced as error:
        raise VolumeOperationError(str(error)) from None
    if config_map is None and not optional:
        raise VolumeOperationError(f'configmap "{source.name}" not found')
    return files_of_config_map(config_map or ConfigMap(), source.items, defaults, optional=optional)


class SecretPlugin(FilesPlugin):
    """secret volumes: the keys of a secret as files on tmpfs."""

    name = "kubernetes.io/secret"

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.secret is not None

    async def payload(self, spec: VolumeSpec) -> tuple[Payload, float | None]:
        source = spec.volume.secret or SecretVolumeSource()
        defaults = self.defaults(source)
        files = await secret_files(
            self.host, spec, source.secretName, source.items, defaults, optional=bool(source.optional)
        )
        return files, None


async def secret_files(
    host: VolumeHost, spec: VolumeSpec, name: str, items: Sequence[KeyToPath], defaults: FileDefaults, *, optional: bool
) -> dict[str, FileProjection]:
    try:
        secret = await host.objects.secret(spec.pod.metadata.namespace, name)
    except NotSynced as error:
        raise VolumeOperationError(str(error)) from None
    if secret is None and not optional:
        raise VolumeOperationError(f'secret "{name}" not found')
    return files_of_secret(secret or Secret(), items, defaults, optional=optional)


class DownwardApiPlugin(FilesPlugin):
    """downwardAPI volumes: fields of the pod as files on tmpfs."""

    name = "kubernetes.io/downward-api"

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.downwardAPI is not None

    async def payload(self, spec: VolumeSpec) -> tuple[Payload, float | None]:
        source = spec.volume.downwardAPI or DownwardAPIVolumeSource()
        allocatable = self.host.config.allocatable
        defaults = self.defaults(source)
        return files_of_downward_api(spec.pod, source.items, defaults, allocatable), None
