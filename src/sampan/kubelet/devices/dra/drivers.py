"""Registered DRA drivers, the calls to them and the health of their devices (`pkg/kubelet/cm/dra/plugin`), and the
deletion of the ResourceSlices of drivers that are gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sampan.api.types.resource_v1 import ResourceSlice
from sampan.host.backoff import Backoff, RetryDelays
from sampan.host.clock import Clock
from sampan.kubelet.plugin_registry import PluginError, calls
from sampan.kubelet.plugin_registry.calls import Message
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema

_HERE = Path(__file__).parent
SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
_TIMEOUT_S = 45.0
HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"
_HEALTH_NAMES = {1: HEALTHY, 2: UNHEALTHY}
_HEALTH_TIMEOUT_S = 30.0
_MAX_MESSAGE = 1024


@cache
def proto(service: str = SERVICES[0]) -> ProtoSchema:
    """Return the protobuf messages of this version of the DRA API."""
    if service == SERVICES[0]:
        return calls.read_schema(_HERE / "dra.proto")
    from sampan.machinery.proto import ProtoSchema

    text = (_HERE / "dra.proto").read_text().replace("apis.dra.v1;", "apis.dra.v1beta1;")
    return ProtoSchema(text, name="dra_v1beta1.proto")


class ClaimRef(NamedTuple):
    namespace: str
    uid: str
    name: str


class DraDriver(NamedTuple):
    name: str
    endpoint: str
    service: str

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Message]:
        """Prepare the claims. Return the results by claim UID."""
        response = await self._call("Prepare", claims)
        return dict(response.claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Message]:
        response = await self._call("Unprepare", claims)
        return dict(response.claims)

    async def _call(self, method: str, claims: Sequence[ClaimRef]) -> Message:
        schema = proto(self.service)
        name = f"Node{method}Resources"
        named = [schema.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name) for claim in claims]
        request = getattr(schema, f"{name}Request")(claims=named)
        return await calls.call(self.endpoint, schema, "DRAPlugin", name, request, timeout_s=_TIMEOUT_S)


def select_service(name: str, endpoint: str, versions: Sequence[str]) -> str:
    """Return the first version of the DRA API that both the driver and this kubelet support. Raise PluginError if there
    is none.
    """
    start = f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}:"
    if not versions:
        raise PluginError(f"{start} empty list of supported gRPC services (aka supported versions)")
    for version in versions:
        if version in SERVICES:
            return version
    theirs, ours = _format_list(versions), _format_list(SERVICES)
    message = f"none of services supported by the plugin ({theirs}) are supported by the kubelet ({ours})"
    raise PluginError(f"{start} {message}")


def _format_list(names: Sequence[str]) -> str:
    return f"[{' '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}]"


class DraDrivers:
    """The registered DRA drivers by name. If a driver has several endpoints, the latest one is used."""

    def __init__(self) -> None:
        self._all: dict[str, list[DraDriver]] = {}

    def add(self, driver: DraDriver) -> None:
        drivers = self._all.setdefault(driver.name, [])
        if any(other.endpoint == driver.endpoint for other in drivers):
            message = f"endpoint {driver.endpoint} already registered for DRA driver plugin {driver.name}"
            raise PluginError(message)
        drivers.append(driver)

    def remove(self, name: str, endpoint: str) -> bool:
        """Remove an endpoint of the driver. Return whether it was the last one."""
        remaining = [driver for driver in self._all.get(name, ()) if driver.endpoint != endpoint]
        if remaining:
            self._all[name] = remaining
        else:
            self._all.pop(name, None)
        return not remaining

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def get(self, name: str) -> DraDriver | None:
        drivers = self._all.get(name)
        return drivers[-1] if drivers else None


log = logging.getLogger(__name__)

_DELAY_S = 30.0
"""How long a driver may be gone before its ResourceSlices are deleted: a driver that is being restarted registers again
within this time.
"""
_BACKOFF = Backoff(1.0, 300.0)


class ResourceSliceCleaner:
    """Deletes the ResourceSlices of drivers that are gone, so that no pod is scheduled to this node for their
    devices.
    """

    def __init__(self, *, client: Client, node_name: str, clock: Clock) -> None:
        self._slices, self._node, self._clock = client.for_kind(ResourceSlice), node_name, clock
        self._group: asyncio.TaskGroup | None = None
        self._pending: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run until cancelled. All slices of the node are deleted first, since drivers publish them again when they
        register.
        """
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._delete("")
            await asyncio.Event().wait()

    def delete_later(self, driver: str) -> None:
        if self._group is not None and driver not in self._pending:
            self._pending[driver] = self._group.create_task(self._delete_after(driver, _DELAY_S))

    def cancel_deletion(self, driver: str) -> None:
        """Cancel a pending deletion of the driver's ResourceSlices because the driver is registered again."""
        task = self._pending.pop(driver, None)
        if task is not None:
            task.cancel()

    async def _delete_after(self, driver: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._delete(driver)
        self._pending.pop(driver, None)

    async def _delete(self, driver: str) -> None:
        """Delete the ResourceSlices of the driver, or of all drivers if the name is empty. Failures are retried."""
        fields = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        delays = RetryDelays(_BACKOFF)
        while True:
            try:
                await self._slices.delete_collection(Selection(fields=fields))
                return
            except errors.NotFound:
                return
            except (errors.ApiError, ConnectionFailed) as error:
                log.info("cannot delete the ResourceSlices of %s: %s", driver or "all drivers", error)
            await self._clock.sleep(delays.next_s())


def health_proto() -> ProtoSchema:
    return calls.read_schema(Path(__file__).parent / "health.proto")


class DeviceHealth(NamedTuple):
    health: str
    message: str
    until: float


PoolDevice = tuple[str, str]
"""The names of a pool and of a device in it."""


class HealthTable:
    """Health of devices as reported by their drivers. A report expires after its timeout."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._reports: dict[str, dict[PoolDevice, DeviceHealth]] = {}

    def get(self, driver: str, pool: str, device: str) -> DeviceHealth:
        state = self._reports.get(driver, {}).get((pool, device))
        if state is None or state.until <= self._clock.monotonic():
            return DeviceHealth(UNKNOWN, "", 0)
        return state

    def update(self, driver: str, response: Message) -> set[PoolDevice]:
        """Store the report. Return the devices whose health or message has changed."""
        before, now = self._reports.get(driver, {}), self._clock.monotonic()
        after = {
            (device_health.device.pool_name, device_health.device.device_name): _read_health(device_health, now)
            for device_health in response.devices
        }
        changed = {
            device
            for device in {*before, *after}
            if _health_and_message(before.get(device)) != _health_and_message(after.get(device))
        }
        self._reports[driver] = after
        return changed

    def forget(self, driver: str) -> set[PoolDevice]:
        return set(self._reports.pop(driver, {}))


def _read_health(report: Message, now: float) -> DeviceHealth:
    timeout_s = report.health_check_timeout_seconds if report.health_check_timeout_seconds > 0 else _HEALTH_TIMEOUT_S
    message = report.message if len(report.message) <= _MAX_MESSAGE else f"{report.message[: _MAX_MESSAGE - 3]}..."
    return DeviceHealth(_HEALTH_NAMES.get(report.health, UNKNOWN), message, now + timeout_s)


def _health_and_message(health: DeviceHealth | None) -> tuple[str, str]:
    return (health.health, health.message) if health is not None else (UNKNOWN, "")


async def watch_health(endpoint: str) -> AsyncIterator[Message]:
    schema = health_proto()
    request = schema.NodeWatchResourcesRequest()
    async for response in calls.stream(endpoint, schema, "DRAResourceHealth", "NodeWatchResources", request):
        yield response
