"""Prepares resource claims with their drivers for the pods that use them, and unprepares them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from sampan.api.types.core_v1 import Container, Pod, ResourceHealth, ResourceStatus
from sampan.api.types.resource_v1 import ResourceClaim
from sampan.kubelet.devices.dra import health
from sampan.kubelet.devices.dra.claims import ClaimNotPrepared, Part, check, claims_of, parts_of
from sampan.kubelet.devices.dra.drivers import ClaimRef, Driver, Drivers, chosen_service
from sampan.kubelet.devices.dra.prepared import ClaimInfo, DriverState, PreparedClaims, PreparedDevice
from sampan.kubelet.devices.dra.slices import SliceWiper
from sampan.kubelet.devices.given import Given
from sampan.kubelet.plugin_registry import PluginFault
from sampan.kubelet.plugin_registry.calls import Message, RpcFault
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

TYPE = "DRAPlugin"
_STATE = "dra_manager_state"
_HEALTH_RETRY_S = 5.0


class DynamicResources:
    """`run()` must be active for drivers to register."""

    def __init__(
        self,
        *,
        root: Path,
        node_name: str,
        client: Client,
        clock: Clock,
        look_at: Callable[[str], None] = lambda uid: None,
    ) -> None:
        """`look_at` receives the UID of a pod one of whose devices has changed its health."""
        self._claims, self._clock, self._look_at = client.of(ResourceClaim), clock, look_at
        self._drivers = Drivers()
        self._prepared = PreparedClaims(root / _STATE)
        self._prepared.read()
        self._health = health.HealthTable(clock=clock)
        self._wiper = SliceWiper(client=client, node_name=node_name, clock=clock)
        self._lock = asyncio.Lock()
        """Serializes the pods, because two of them may use the same claim."""
        self._group: asyncio.TaskGroup | None = None
        self._watching: dict[tuple[str, str], asyncio.Task[None]] = {}

    # -- drivers -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._wiper.run()

    def check(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        chosen_service(name, endpoint, versions)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if self._group is None:
            raise PluginFault("the kubelet has just begun")
        self._drivers.add(Driver(name, endpoint, chosen_service(name, endpoint, versions)))
        self._wiper.keep(name)
        self._watching[name, endpoint] = self._group.create_task(self._watch(name, endpoint))

    async def deregister(self, name: str, endpoint: str) -> None:
        task = self._watching.pop((name, endpoint), None)
        if task is not None:
            task.cancel()
        if self._drivers.remove(name, endpoint):
            self._tell(name, self._health.forget(name))
            self._wiper.wipe_later(name)

    async def _watch(self, name: str, endpoint: str) -> None:
        """Watch the health of the driver's devices. A driver that does not implement this is not asked again."""
        while True:
            try:
                async for answer in health.watched(endpoint):
                    self._tell(name, self._health.note(name, answer))
            except RpcFault as error:
                if error.code == "Unimplemented":
                    return
            self._tell(name, self._health.forget(name))
            await self._clock.sleep(_HEALTH_RETRY_S)

    def _tell(self, driver: str, devices: Iterable[health.Device]) -> None:
        infos = (info for pool, device in devices for info in self._prepared.of_device(driver, pool, device))
        for uid in sorted({uid for info in infos for uid in info.PodUIDs}):
            self._look_at(uid)

    # -- preparing claims --------------------------------------------------------------------------------------------

    async def prepare(self, pod: Pod) -> None:
        """Prepare all claims of the pod; returns immediately if they are. Raise ClaimNotPrepared on errors."""
        if not pod.spec.resourceClaims and pod.status.extendedResourceClaimStatus is None:
            return
        try:
            claims = await self._read(pod)
            async with self._lock:
                await self._prepare(pod, claims)
        except (RpcFault, OSError) as error:
            raise ClaimNotPrepared(f"prepare dynamic resources: {error}") from error
        except ClaimNotPrepared as error:
            raise ClaimNotPrepared(f"prepare dynamic resources: {error}") from None

    async def _read(self, pod: Pod) -> list[ResourceClaim]:
        claims = []
        for used in claims_of(pod):
            try:
                claim = await self._claims.get(used.name, pod.metadata.namespace)
            except (errors.ApiError, ConnectionFailed) as error:
                raise ClaimNotPrepared(f"fetch ResourceClaim {used.name}: {error}") from error
            check(pod, used, claim)
            for driver in _drivers_of(claim):
                self._driver(driver)
            claims.append(claim)
        return claims

    async def _prepare(self, pod: Pod, claims: Sequence[ResourceClaim]) -> None:
        infos = [self._noted(pod, claim) for claim in claims]
        self._prepared.write()
        missing = [info for info in infos if not self._prepared.is_done(info)]
        if not missing:
            return
        for driver, of_driver in _by_driver(missing).items():
            await self._ask_to_prepare(self._driver(driver), of_driver)
        self._prepared.set_done([info.ClaimUID for info in missing])
        self._prepared.write()

    def _noted(self, pod: Pod, claim: ResourceClaim) -> ClaimInfo:
        """Record that the pod uses the claim, before it is prepared: from now on it may have to be unprepared."""
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

    async def _ask_to_prepare(self, driver: Driver, infos: Sequence[ClaimInfo]) -> None:
        by_uid = {info.ClaimUID: info for info in infos}
        try:
            answers = await driver.prepare([_ref(info) for info in infos])
        except RpcFault as error:
            raise ClaimNotPrepared(f"NodePrepareResources: {error}") from error
        _check_answers("NodePrepareResources", by_uid, answers)
        for uid, answer in answers.items():
            devices = [_device(device) for device in answer.devices]
            by_uid[uid].DriverState[driver.name] = DriverState(Devices=devices)

    def _driver(self, name: str) -> Driver:
        driver = self._drivers.get(name)
        if driver is None:
            raise ClaimNotPrepared(f"DRA driver {name} is not registered")
        return driver

    # -- prepared claims ---------------------------------------------------------------------------------------------

    def given(self, pod: Pod, container: Container) -> Given:
        """Return the CDI devices of the container. Raise ClaimNotPrepared if a claim has not been prepared."""
        names: dict[str, None] = {}
        for part in parts_of(pod, container):
            info = self._prepared.get(pod.metadata.namespace, part.claim)
            if info is None:
                message = (
                    f"unable to get claim info for ResourceClaim {part.claim} in namespace {pod.metadata.namespace}"
                )
                raise ClaimNotPrepared(f"internal error: {message}")
            for _, device in info.devices(part.request):
                names |= dict.fromkeys(device.CDIDeviceIDs or ())
        return Given(cdi_devices=list(names))

    def claims(self, pod: Pod, container: Container) -> list[ClaimInfo]:
        """Return the prepared claims that the container uses."""
        names = dict.fromkeys(part.claim for part in _known_parts(pod, container))
        infos = (self._prepared.get(pod.metadata.namespace, name) for name in names)
        return [info for info in infos if info is not None]

    def statuses(self, pod: Pod, container: Container) -> list[ResourceStatus]:
        """Return the health of the devices that the container claims."""
        statuses = []
        for part in _known_parts(pod, container):
            info = self._prepared.get(pod.metadata.namespace, part.claim)
            devices: dict[str, ResourceHealth] = {}
            for driver, device in info.devices(part.request) if info is not None and part.label else ():
                device_health = self._device_health(driver, device)
                devices.setdefault(device_health.resourceID, device_health)
            if devices:
                statuses.append(ResourceStatus(name=part.label, resources=list(devices.values())))
        return statuses

    def _device_health(self, driver: str, device: PreparedDevice) -> ResourceHealth:
        state = self._health.get(driver, device.PoolName, device.DeviceName)
        ids = device.CDIDeviceIDs or [f"{driver}/{device.PoolName}/{device.DeviceName}"]
        return ResourceHealth(resourceID=ids[0], health=state.health, message=state.message or None)

    # -- unpreparing claims ------------------------------------------------------------------------------------------

    async def unprepare(self, uid: str) -> None:
        """Unprepare the claims that no other pod uses. Raise ClaimNotPrepared if that fails, so that it is retried."""
        async with self._lock:
            infos = self._prepared.of_pod(uid)
            if not infos:
                return
            last = [info for info in infos if len(info.PodUIDs) == 1]
            try:
                for name, of_driver in _by_driver(last).items():
                    await self._ask_to_unprepare(self._driver(name), of_driver)
                for info in infos:
                    info.PodUIDs.pop(uid)
                    if not info.PodUIDs:
                        self._prepared.remove(info)
                self._prepared.write()
            except (ClaimNotPrepared, OSError) as error:
                raise ClaimNotPrepared(f"unprepare dynamic resources: {error}") from error

    async def _ask_to_unprepare(self, driver: Driver, infos: Sequence[ClaimInfo]) -> None:
        try:
            answers = await driver.unprepare([_ref(info) for info in infos])
        except RpcFault as error:
            raise ClaimNotPrepared(f"NodeUnprepareResources: {error}") from error
        _check_answers("NodeUnprepareResources", {info.ClaimUID: info for info in infos}, answers)

    async def keep_only(self, uids: Collection[str]) -> None:
        """Unprepare the claims of all pods but those with the UIDs `uids`. Failures are retried at the next call."""
        for uid in sorted(self._prepared.pods() - set(uids)):
            with contextlib.suppress(ClaimNotPrepared):
                await self.unprepare(uid)


def _known_parts(pod: Pod, container: Container) -> list[Part]:
    try:
        return list(parts_of(pod, container))
    except ClaimNotPrepared:
        return []


def _drivers_of(claim: ResourceClaim) -> list[str]:
    allocation = claim.status.allocation
    return sorted({result.driver for result in allocation.devices.results}) if allocation is not None else []


def _by_driver(infos: Sequence[ClaimInfo]) -> dict[str, list[ClaimInfo]]:
    by_driver: dict[str, list[ClaimInfo]] = {}
    for info in infos:
        for driver in info.DriverState:
            by_driver.setdefault(driver, []).append(info)
    return by_driver


def _ref(info: ClaimInfo) -> ClaimRef:
    return ClaimRef(info.Namespace, info.ClaimUID, info.ClaimName)


def _check_answers(what: str, asked: Mapping[str, ClaimInfo], answers: Mapping[str, Message]) -> None:
    for uid, answer in answers.items():
        if uid not in asked:
            raise ClaimNotPrepared(f"{what} returned result for unknown claim UID {uid}")
        if answer.error:
            raise ClaimNotPrepared(f"{what} failed for ResourceClaim {asked[uid].ClaimName}: {answer.error}")
    if skipped := len(asked) - len(answers):
        raise ClaimNotPrepared(f"{what} skipped {skipped} ResourceClaims")


def _device(said: Message) -> PreparedDevice:
    return PreparedDevice(
        PoolName=said.pool_name,
        DeviceName=said.device_name,
        ShareID=getattr(said, "share_id", "") or None,
        RequestNames=list(said.request_names),
        CDIDeviceIDs=list(said.cdi_device_ids),
    )


__all__ = ["TYPE", "ClaimNotPrepared", "DynamicResources"]
