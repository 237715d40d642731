"""csi volumes: persistent volumes and ephemeral inline volumes of CSI drivers."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import CSIPersistentVolumeSource, CSIVolumeSource, Secret
from sampan.api.types.storage_v1 import CSIDriver, VolumeAttachment
from sampan.host.durable_files import write_durably
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.volumes.contract import (
    MOUNT_DEVICE,
    WAIT_FOR_ATTACH,
    DeviceMount,
    DriverUsage,
    ExpansionNotSupported,
    ExpansionUnknown,
    NotAttached,
    ReadyVolume,
    VolumeOperationError,
    VolumePluginBase,
    VolumeSpec,
)
from sampan.kubelet.volumes.csi.client import EXPAND, MOUNT_GROUP, STAGE, STATS, CsiDrivers, CsiRpcError, CsiVolume
from sampan.kubelet.volumes.csi.conversions import (
    PERSISTENT,
    PREFIX,
    applies_fs_group,
    attachment_name,
    check_lifecycle_mode,
    driver_usage,
    expansion_error,
    inline_handle,
    lifecycle_mode,
    pod_info,
)
from sampan.kubelet.volumes.csi.registration import update_period_s
from sampan.kubelet.volumes.ownership import give_to_group
from sampan.kubelet.volumes.volume_host import VolumeHost
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed

log = logging.getLogger(__name__)

NAME = "kubernetes.io/csi"
_DATA = "vol_data.json"
_REPUBLISH_S = 60.0
_EXHAUSTED = 8
"""gRPC status code RESOURCE_EXHAUSTED."""


class CsiPlugin(VolumePluginBase):
    name = NAME

    def __init__(self, host: VolumeHost, drivers: CsiDrivers, refresh: Callable[[str], Awaitable[None]]) -> None:
        """`refresh` publishes how many volumes of the named driver this node supports."""
        self._host, self._drivers, self._refresh = host, drivers, refresh

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.csi is not None or spec.source.csi is not None

    # -- staging -----------------------------------------------------------------------------------------------------

    async def device(self, spec: VolumeSpec) -> DeviceMount | None:
        source = spec.source.csi
        if source is None:
            return None
        return self._device(
            source.driver, source.volumeHandle, is_attachable=await self._requires_attach(source.driver)
        )

    def _device(self, driver: str, handle: str, *, is_attachable: bool) -> DeviceMount:
        directory = self._host.layout.plugin(NAME) / driver / hashlib.sha256(handle.encode()).hexdigest()
        return DeviceMount(
            unique_name=f"{NAME}/{driver}^{handle}", path=directory / "globalmount", is_attachable=is_attachable
        )

    async def check_attached(self, spec: VolumeSpec) -> None:
        source = spec.source.csi or CSIPersistentVolumeSource()
        name = attachment_name(source.volumeHandle, source.driver, self._host.config.node_name)
        try:
            attachment = await self._host.client.for_kind(VolumeAttachment).get(name)
        except (errors.ApiError, ConnectionFailed) as failure:
            message = f"volume {source.volumeHandle} has GET error for volume attachment {name}: {failure}"
            raise NotAttached(message, step=WAIT_FOR_ATTACH) from failure
        if attachment.metadata.deletionTimestamp is not None:
            raise NotAttached("volume attachment is being deleted", step=WAIT_FOR_ATTACH)
        if not attachment.status.attached:
            error = attachment.status.attachError
            message = f"volume {source.volumeHandle} is not attached for volume attachment {name}"
            raise NotAttached(error.message if error is not None else message, step=WAIT_FOR_ATTACH)

    async def is_exhausted(self, spec: VolumeSpec) -> bool:
        source = spec.source.csi
        if source is None or update_period_s(await self._info(source.driver)) == 0:
            return False
        name = attachment_name(source.volumeHandle, source.driver, self._host.config.node_name)
        try:
            error = (await self._host.client.for_kind(VolumeAttachment).get(name)).status.attachError
            if error is None or error.errorCode != _EXHAUSTED:
                return False
            await self._refresh(source.driver)
        except (VolumeOperationError, errors.ApiError, ConnectionFailed):
            return False
        return True

    async def mount_device(self, spec: VolumeSpec, device: DeviceMount) -> None:
        try:
            await self._stage(spec, device)
        except (VolumeOperationError, errors.ApiError, ConnectionFailed) as error:
            raise VolumeOperationError(str(error), step=MOUNT_DEVICE) from error

    async def _stage(self, spec: VolumeSpec, device: DeviceMount) -> None:
        source = spec.source.csi or CSIPersistentVolumeSource()
        driver = self._drivers.get(source.driver, "attacher.MountDevice failed to create newCsiDriverClient")
        device.path.mkdir(parents=True, exist_ok=True, mode=0o750)
        _save(device.path.parent / _DATA, {"volumeHandle": source.volumeHandle, "driverName": source.driver})
        if not await driver.can(STAGE):
            return
        secrets = await self._secrets(source.nodeStageSecretRef, "NodeStageSecretRef")
        volume = await self._csi_volume(spec, source, secrets, source.volumeAttributes)
        await driver.stage(volume, device.path)

    async def unmount_device(self, device: DeviceMount) -> None:
        data = load(device.path.parent / _DATA)
        if data is not None:
            driver = self._drivers.get(data["driverName"], "attacher.UnmountDevice failed to create newCsiDriverClient")
            if await driver.can(STAGE):
                await driver.unstage(data["volumeHandle"], device.path)
        await run_in_thread(self._host.mounter.unmount_and_remove, device.path)
        (device.path.parent / _DATA).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            device.path.parent.rmdir()

    def device_on_disk(self, uid: str, inner: str) -> DeviceMount | None:
        data = load(self._volume_directory(uid, inner) / _DATA)
        if data is None or data.get("volumeLifecycleMode") != PERSISTENT:
            return None
        return self._device(data["driverName"], data["volumeHandle"], is_attachable=True)

    def devices_on_disk(self) -> Sequence[DeviceMount]:
        volume_data = (load(path) for path in sorted(self._host.layout.plugin(NAME).glob(f"*/*/{_DATA}")))
        return [
            self._device(data["driverName"], data["volumeHandle"], is_attachable=True) for data in volume_data if data
        ]

    # -- publishing --------------------------------------------------------------------------------------------------

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        try:
            return await self._publish(spec)
        except (errors.ApiError, ConnectionFailed) as error:
            raise VolumeOperationError(f"kubernetes.io/csi: mounter.SetUpAt failed: {error}") from error

    async def _publish(self, spec: VolumeSpec) -> ReadyVolume:
        """Publish the volume. Its data file is written first, so that a later kubelet can unpublish the volume."""
        source: CSIPersistentVolumeSource | CSIVolumeSource = spec.source.csi or spec.volume.csi or CSIVolumeSource()
        driver = self._drivers.get(source.driver, "mounter.SetUpAt failed to get CSI client")
        info = await self._info(source.driver)
        check_lifecycle_mode(info, source.driver, lifecycle_mode(spec))
        is_read_only = spec.is_read_only if spec.persistent is not None else bool(source.readOnly)
        device = await self.device(spec)
        staging = device.path if device is not None and await driver.can(STAGE) else None
        target = self._target(spec)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        context, secrets = await self._context(spec, source, info)
        volume = await self._csi_volume(spec, source, secrets, context)
        _save(
            self._volume_directory(spec.pod.metadata.uid, spec.inner) / _DATA,
            self._data(spec, source.driver, volume.handle),
        )
        await driver.publish(volume, staging, target, is_read_only=is_read_only)
        if not spec.is_block and not await driver.can(MOUNT_GROUP) and applies_fs_group(spec, info, is_read_only):
            security = spec.security
            await run_in_thread(
                give_to_group, target, security.fsGroup, is_read_only=False, policy=security.fsGroupChangePolicy
            )
        again_s = _REPUBLISH_S if info is not None and info.spec.requiresRepublish else None
        return ReadyVolume(
            path=target, is_read_only=is_read_only, again_s=again_s, device=target if spec.is_block else None
        )

    async def tear_down(self, uid: str, inner: str) -> None:
        directory = self._volume_directory(uid, inner)
        data = load(directory / _DATA)
        if data is None:
            self._host.mounter.remove(directory)
            return
        driver = self._drivers.get(data["driverName"], "Unmounter.TearDownAt failed to get CSI client")
        target = Path(data.get("target") or directory / "mount")
        await driver.unpublish(data["volumeHandle"], target)
        await run_in_thread(self._host.mounter.unmount_and_remove, target)
        (directory / _DATA).unlink()
        directory.rmdir()

    # -- expansion and usage -----------------------------------------------------------------------------------------

    def supports_expansion(self, spec: VolumeSpec) -> bool:
        return spec.source.csi is not None

    async def expand(self, spec: VolumeSpec, ready: ReadyVolume, device: DeviceMount | None, size: int) -> None:
        source = spec.source.csi or CSIPersistentVolumeSource()
        try:
            driver = self._drivers.get(source.driver, "Expander.NodeExpand failed")
        except VolumeOperationError as error:
            raise ExpansionUnknown(error.text) from None
        if not await driver.can(EXPAND):
            raise ExpansionNotSupported(f"NodeExpand is not supported by the CSI driver {source.driver}")
        secrets = await self._secrets(source.nodeExpandSecretRef, "NodeExpandSecretRef")
        volume = await self._csi_volume(spec, source, secrets, {})
        staging = device.path if device is not None and await driver.can(STAGE) else None
        try:
            await driver.expand(volume, staging, ready.path, size)
        except CsiRpcError as error:
            raise expansion_error(error.code, error.text) from None

    async def usage(self, uid: str, inner: str, ready: ReadyVolume) -> DriverUsage | None:
        data = load(self._volume_directory(uid, inner) / _DATA)
        if data is None or data["driverName"] not in self._drivers:
            return None
        driver = self._drivers.get(data["driverName"], "metrics")
        return driver_usage(await driver.stats(data["volumeHandle"], ready.path)) if await driver.can(STATS) else None

    # -- internals ---------------------------------------------------------------------------------------------------

    def _volume_directory(self, uid: str, inner: str) -> Path:
        return self._host.layout.volume(uid, NAME, inner)

    def _target(self, spec: VolumeSpec) -> Path:
        if spec.is_block:
            directory = self._host.layout.plugin(NAME) / "volumeDevices" / "publish" / spec.inner
            self._volume_directory(spec.pod.metadata.uid, spec.inner).mkdir(parents=True, exist_ok=True, mode=0o750)
            return directory / spec.pod.metadata.uid
        return self._volume_directory(spec.pod.metadata.uid, spec.inner) / "mount"

    def _data(self, spec: VolumeSpec, driver: str, handle: str) -> dict[str, str]:
        node = self._host.config.node_name
        data = {
            "specVolID": spec.inner,
            "volumeHandle": handle,
            "driverName": driver,
            "nodeName": node,
            "attachmentID": attachment_name(handle, driver, node),
            "volumeLifecycleMode": lifecycle_mode(spec),
        }
        return data | {"target": str(self._target(spec))} if spec.is_block else data

    async def _csi_volume(
        self,
        spec: VolumeSpec,
        source: CSIPersistentVolumeSource | CSIVolumeSource,
        secrets: Mapping[str, str],
        context: Mapping[str, str],
    ) -> CsiVolume:
        handle = inline_handle(spec) if isinstance(source, CSIVolumeSource) else source.volumeHandle
        published = await self._get_publish_context(source) if isinstance(source, CSIPersistentVolumeSource) else {}
        driver = self._drivers.get(source.driver, "mounter.SetUpAt failed to get CSI client")
        return CsiVolume(
            handle=handle,
            mode=(spec.source.accessModes or ["ReadWriteOnce"])[0],
            kind=source.fsType or "",
            options=spec.source.mountOptions,
            group=spec.security.fsGroup if await driver.can(MOUNT_GROUP) else None,
            is_block=spec.is_block,
            publish_context=published,
            volume_context=context,
            secrets=secrets,
        )

    async def _get_publish_context(self, source: CSIPersistentVolumeSource) -> Mapping[str, str]:
        """Return the publish context that attaching the volume has produced."""
        if not await self._requires_attach(source.driver):
            return {}
        name = attachment_name(source.volumeHandle, source.driver, self._host.config.node_name)
        return (await self._host.client.for_kind(VolumeAttachment).get(name)).status.attachmentMetadata

    async def _context(
        self, spec: VolumeSpec, source: CSIPersistentVolumeSource | CSIVolumeSource, info: CSIDriver | None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return volume context and secrets, with the pod information and tokens that the driver requests."""
        context = dict(source.volumeAttributes)
        secrets = await self._publish_secrets(spec, source)
        if info is not None and info.spec.podInfoOnMount:
            context |= pod_info(spec)
        if info is not None and info.spec.tokenRequests:
            tokens = {f"{PREFIX}/serviceAccount.tokens": await self._tokens(spec, info)}
            (secrets if info.spec.serviceAccountTokenInSecrets else context).update(tokens)
        return context, secrets

    async def _tokens(self, spec: VolumeSpec, info: CSIDriver) -> str:
        tokens: dict[str, Any] = {}
        for token_request in info.spec.tokenRequests:
            audiences = [token_request.audience] if token_request.audience else []
            token = await self._host.tokens.get(spec.pod, audiences, token_request.expirationSeconds)
            tokens[token_request.audience] = token.status()
        return json.encode(tokens).decode()

    async def _publish_secrets(
        self, spec: VolumeSpec, source: CSIPersistentVolumeSource | CSIVolumeSource
    ) -> dict[str, str]:
        ref = source.nodePublishSecretRef
        namespace = getattr(ref, "namespace", "") or spec.pod.metadata.namespace
        return await self._secret_data(namespace, ref.name, "NodePublishSecretRef") if ref is not None else {}

    async def _secrets(self, ref: Any, purpose: str) -> dict[str, str]:
        return await self._secret_data(ref.namespace, ref.name, purpose) if ref is not None else {}

    async def _secret_data(self, namespace: str, name: str, purpose: str) -> dict[str, str]:
        try:
            secret = await self._host.client.for_kind(Secret).get(name, namespace)
        except (errors.ApiError, ConnectionFailed) as error:
            why = (
                f"kubernetes.io/csi: failed to find the secret {name} in the namespace {namespace} with error: {error}"
            )
            raise VolumeOperationError(f"fetching {purpose} {namespace}/{name} failed: {why}") from error
        return {key: value.decode("utf-8", "surrogateescape") for key, value in secret.data.items()}

    async def _info(self, driver: str) -> CSIDriver | None:
        informer = self._host.informers.for_kind(CSIDriver)
        await informer.synced.wait()
        return informer.lister.get(driver)

    async def _requires_attach(self, driver: str) -> bool:
        """Whether volumes of the driver have to be attached to the node."""
        info = await self._info(driver)
        return info is None or info.spec.attachRequired is not False


def _save(path: Path, data: Mapping[str, str]) -> None:
    write_durably(path, json.encode(dict(sorted(data.items()))) + b"\n", mode=0o600)


def load(path: Path) -> dict[str, str] | None:
    """Return the volume data, or None if the file is missing or does not identify a volume."""
    try:
        data: dict[str, str] = json.read_any(path.read_bytes())
        return {**data, "driverName": data["driverName"], "volumeHandle": data["volumeHandle"]}
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError) as error:
        log.error("cannot read CSI volume data %s: %s", path, error)
        return None
