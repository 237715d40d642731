"""The DRA manager prepares resource claims with their drivers for the pods that use them, and unprepares them
(`pkg/kubelet/cm/dra/manager.go`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from sampan.api.types.core_v1 import Container, Pod, ResourceHealth, ResourceStatus
from sampan.api.types.resource_v1 import ResourceClaim
from sampan.host.clock import Clock
from sampan.kubelet.devices.dra.claim_info import (
    ClaimInfo,
    ClaimNotPrepared,
    ContainerClaim,
    DriverState,
    PreparedClaims,
    PreparedDevice,
    check_claim,
    container_claims,
    pod_claims,
)
from sampan.kubelet.devices.dra.drivers import (
    ClaimRef,
    DraDriver,
    DraDrivers,
    HealthTable,
    PoolDevice,
    ResourceSliceCleaner,
    select_service,
    watch_health,
)
from sampan.kubelet.devices.plugin import DeviceRunOptions
from sampan.kubelet.plugin_registry import PluginError
from sampan.kubelet.plugin_registry.calls import Message, RpcError
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed

TYPE = "DRAPlugin"
_STATE = "dra_manager_state"
_HEALTH_RETRY_S = 5.0


class DraManager:
    """Prepares and unprepares the resource claims of a node's pods. `run()` must be active for drivers to register."""

    def __init__(
        self,
        *,
        root: Path,
        node_name: str,
        client: Client,
        clock: Clock,
        look_at: Callable[[str], None] = lambda uid: None,
    ) -> None:
        """`look_at` is called with the UID of each pod that uses a device whose health has changed."""
        self._claims, self._clock, self._look_at = client.for_kind(ResourceClaim), clock, look_at
        self._drivers = DraDrivers()
        self._prepared = PreparedClaims(root / _STATE)
        self._prepared.read()
        self._health = HealthTable(clock=clock)
        self._slice_cleaner = ResourceSliceCleaner(client=client, node_name=node_name, clock=clock)
        self._lock = asyncio.Lock()
        """Held while the claims of one pod are prepared or unprepared, because two pods may use the same claim."""
        self._group: asyncio.TaskGroup | None = None
        self._watching: dict[tuple[str, str], asyncio.Task[None]] = {}

    # -- drivers -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._slice_cleaner.run()

    def check(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        select_service(name, endpoint, versions)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if self._group is None:
            raise PluginError("the kubelet has not started its plugin manager yet")
        self._drivers.add(DraDriver(name, endpoint, select_service(name, endpoint, versions)))
        self._slice_cleaner.cancel_deletion(name)
        self._watching[name, endpoint] = self._group.create_task(self._watch(name, endpoint))

    async def deregister(self, name: str, endpoint: str) -> None:
        task = self._watching.pop((name, endpoint), None)
        if task is not None:
            task.cancel()
        if self._drivers.remove(name, endpoint):
            self._report_health_change(name, self._health.forget(name))
            self._slice_cleaner.delete_later(name)

    async def _watch(self, name: str, endpoint: str) -> None:
        """Watch the health of the driver's devices. Return if the driver does not implement health reports."""
        while True:
            try:
                async for response in watch_health(endpoint):
                    self._report_health_change(name, self._health.update(name, response))
            except RpcError as error:
                if error.code == "Unimplemented":
                    return
            self._report_health_change(name, self._health.forget(name))
            await self._clock.sleep(_HEALTH_RETRY_S)

    def _report_health_change(self, driver: str, devices: Iterable[PoolDevice]) -> None:
        infos = (info for pool, device in devices for info in self._prepared.list_device_claims(driver, pool, device))
        for uid in sorted({uid for info in infos for uid in info.PodUIDs}):
            self._look_at(uid)

    # -- preparing claims --------------------------------------------------------------------------------------------

    async def prepare(self, pod: Pod) -> None:
        """Prepare all claims of the pod, unless they are prepared already. Raise ClaimNotPrepared on errors."""
        if not pod.spec.resourceClaims and pod.status.extendedResourceClaimStatus is None:
            return
        try:
            claims = await self._read(pod)
            async with self._lock:
                await self._prepare(pod, claims)
        except (RpcError, OSError) as error:
            raise ClaimNotPrepared(f"prepare dynamic resources: {error}") from error
        except ClaimNotPrepared as error:
            raise ClaimNotPrepared(f"prepare dynamic resources: {error}") from None

    async def _read(self, pod: Pod) -> list[ResourceClaim]:
        claims = []
        for pod_claim in pod_claims(pod):
            try:
                claim = await self._claims.get(pod_claim.name, pod.metadata.namespace)
            except (errors.ApiError, ConnectionFailed) as error:
                raise ClaimNotPrepared(f"fetch ResourceClaim {pod_claim.name}: {error}") from error
            check_claim(pod, pod_claim, claim)
            for driver in _drivers_of(claim):
                self._driver(driver)
            claims.append(claim)
        return claims

    async def _prepare(self, pod: Pod, claims: Sequence[ResourceClaim]) -> None:
        infos = [self._record_use(pod, claim) for claim in claims]
        self._prepared.write()
        missing = [info for info in infos if not self._prepared.is_prepared(info)]
        if not missing:
            return
        for driver, of_driver in _group_by_driver(missing).items():
            await self._prepare_with_driver(self._driver(driver), of_driver)
        self._prepared.set_prepared([info.ClaimUID for info in missing])
        self._prepared.write()

    def _record_use(self, pod: Pod, claim: ResourceClaim) -> ClaimInfo:
        """Record that the pod uses the claim. This happens before the claim is prepared: from now on it may have to be
        unprepared.
        """
        meta = claim.metadata
        info = self._prepared.get(meta.namespace, meta.name)
        if info is not None and info.ClaimUID != meta.uid:
            message = f"old ResourceClaim with same name {meta.name} and different UID {info.ClaimUID} still exists"
            raise ClaimNotPrepared(f"{message} (previous pod force-deleted?!)")
        if info is None:
            info = ClaimInfo(
                ClaimUID=meta.uid,
                ClaimName=meta.name,
                Namespace=meta.namespace,
                PodUIDs={},
                DriverState={driver: DriverState() for driver in _drivers_of(claim)},
            )
            self._prepared.put(info)
        info.PodUIDs[pod.metadata.uid] = {}
        return info

    async def _prepare_with_driver(self, driver: DraDriver, infos: Sequence[ClaimInfo]) -> None:
        by_uid = {info.ClaimUID: info for info in infos}
        try:
            responses = await driver.prepare([_ref(info) for info in infos])
        except RpcError as error:
            raise ClaimNotPrepared(f"NodePrepareResources: {error}") from error
        _check_responses("NodePrepareResources", by_uid, responses)
        for uid, response in responses.items():
            devices = [_device(device) for device in response.devices]
            by_uid[uid].DriverState[driver.name] = DriverState(Devices=devices)

    def _driver(self, name: str) -> DraDriver:
        driver = self._drivers.get(name)
        if driver is None:
            raise ClaimNotPrepared(f"DRA driver {name} is not registered")
        return driver

    # -- prepared claims ---------------------------------------------------------------------------------------------

    def run_options(self, pod: Pod, container: Container) -> DeviceRunOptions:
        """Return the CDI devices of the container. Raise ClaimNotPrepared if a claim has not been prepared."""
        names: dict[str, None] = {}
        for claim in container_claims(pod, container):
            info = self._prepared.get(pod.metadata.namespace, claim.claim)
            if info is None:
                message = (
                    f"unable to get claim info for ResourceClaim {claim.claim} in namespace {pod.metadata.namespace}"
                )
                raise ClaimNotPrepared(f"internal error: {message}")
            for _, device in info.devices(claim.request):
                names |= dict.fromkeys(device.CDIDeviceIDs or ())
        return DeviceRunOptions(cdi_devices=list(names))

    def claims(self, pod: Pod, container: Container) -> list[ClaimInfo]:
        """Return the prepared claims that the container uses."""
        names = dict.fromkeys(claim.claim for claim in _known_claims(pod, container))
        infos = (self._prepared.get(pod.metadata.namespace, name) for name in names)
        return [info for info in infos if info is not None]

    def statuses(self, pod: Pod, container: Container) -> list[ResourceStatus]:
        """Return the health of the devices that the container claims."""
        statuses = []
        for claim in _known_claims(pod, container):
            info = self._prepared.get(pod.metadata.namespace, claim.claim)
            devices: dict[str, ResourceHealth] = {}
            for driver, device in info.devices(claim.request) if info is not None and claim.label else ():
                device_health = self._device_health(driver, device)
                devices.setdefault(device_health.resourceID, device_health)
            if devices:
                statuses.append(ResourceStatus(name=claim.label, resources=list(devices.values())))
        return statuses

    def _device_health(self, driver: str, device: PreparedDevice) -> ResourceHealth:
        state = self._health.get(driver, device.PoolName, device.DeviceName)
        ids = device.CDIDeviceIDs or [f"{driver}/{device.PoolName}/{device.DeviceName}"]
        return ResourceHealth(resourceID=ids[0], health=state.health, message=state.message or None)

    # -- unpreparing claims ------------------------------------------------------------------------------------------

    async def unprepare(self, uid: str) -> None:
        """Unprepare the claims that no other pod uses. Raise ClaimNotPrepared if that fails, so that it is retried."""
        async with self._lock:
            infos = self._prepared.list_pod_claims(uid)
            if not infos:
                return
            last = [info for info in infos if len(info.PodUIDs) == 1]
            try:
                for name, of_driver in _group_by_driver(last).items():
                    await self._unprepare_with_driver(self._driver(name), of_driver)
                for info in infos:
                    info.PodUIDs.pop(uid)
                    if not info.PodUIDs:
                        self._prepared.remove(info)
                self._prepared.write()
            except (ClaimNotPrepared, OSError) as error:
                raise ClaimNotPrepared(f"unprepare dynamic resources: {error}") from error

    async def _unprepare_with_driver(self, driver: DraDriver, infos: Sequence[ClaimInfo]) -> None:
        try:
            responses = await driver.unprepare([_ref(info) for info in infos])
        except RpcError as error:
            raise ClaimNotPrepared(f"NodeUnprepareResources: {error}") from error
        _check_responses("NodeUnprepareResources", {info.ClaimUID: info for info in infos}, responses)

    async def keep_only(self, uids: Collection[str]) -> None:
        """Unprepare the claims of all pods but those with the UIDs `uids`. Failures are retried at the next call."""
        for uid in sorted(self._prepared.pods() - set(uids)):
            with contextlib.suppress(ClaimNotPrepared):
                await self.unprepare(uid)


def _known_claims(pod: Pod, container: Container) -> list[ContainerClaim]:
    try:
        return list(container_claims(pod, container))
    except ClaimNotPrepared:
        return []


def _drivers_of(claim: ResourceClaim) -> list[str]:
    allocation = claim.status.allocation
    return sorted({result.driver for result in allocation.devices.results}) if allocation is not None else []


def _group_by_driver(infos: Sequence[ClaimInfo]) -> dict[str, list[ClaimInfo]]:
    by_driver: dict[str, list[ClaimInfo]] = {}
    for info in infos:
        for driver in info.DriverState:
            by_driver.setdefault(driver, []).append(info)
    return by_driver


def _ref(info: ClaimInfo) -> ClaimRef:
    return ClaimRef(info.Namespace, info.ClaimUID, info.ClaimName)


def _check_responses(method: str, infos: Mapping[str, ClaimInfo], responses: Mapping[str, Message]) -> None:
    for uid, response in responses.items():
        if uid not in infos:
            raise ClaimNotPrepared(f"{method} returned result for unknown claim UID {uid}")
        if response.error:
            raise ClaimNotPrepared(f"{method} failed for ResourceClaim {infos[uid].ClaimName}: {response.error}")
    if skipped := len(infos) - len(responses):
        raise ClaimNotPrepared(f"{method} skipped {skipped} ResourceClaims")


def _device(device: Message) -> PreparedDevice:
    return PreparedDevice(
        PoolName=device.pool_name,
        DeviceName=device.device_name,
        ShareID=getattr(device, "share_id", "") or None,
        RequestNames=list(device.request_names),
        CDIDeviceIDs=list(device.cdi_device_ids),
    )
