"""Health of devices as reported by drivers of dynamic resources. A report expires after its timeout."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import Message
from sampan.machinery.clock import Clock

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema

HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"
_WORDS = {1: HEALTHY, 2: UNHEALTHY}
_TIMEOUT_S = 30.0
_MAX_MESSAGE = 1024


def proto() -> ProtoSchema:
    return calls.read(Path(__file__).parent / "health.proto")


class DeviceHealth(NamedTuple):
    health: str
    message: str
    until: float


PoolDevice = tuple[str, str]
"""Pool and device name."""


class HealthTable:
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
            (device_health.device.pool_name, device_health.device.device_name): _read(device_health, now)
            for device_health in response.devices
        }
        changed = {
            device for device in {*before, *after} if _reported(before.get(device)) != _reported(after.get(device))
        }
        self._reports[driver] = after
        return changed

    def forget(self, driver: str) -> set[PoolDevice]:
        return set(self._reports.pop(driver, {}))


def _read(report: Message, now: float) -> DeviceHealth:
    timeout_s = report.health_check_timeout_seconds if report.health_check_timeout_seconds > 0 else _TIMEOUT_S
    message = report.message if len(report.message) <= _MAX_MESSAGE else f"{report.message[: _MAX_MESSAGE - 3]}..."
    return DeviceHealth(_WORDS.get(report.health, UNKNOWN), message, now + timeout_s)


def _reported(health: DeviceHealth | None) -> tuple[str, str]:
    return (health.health, health.message) if health is not None else (UNKNOWN, "")


async def watch_health(endpoint: str) -> AsyncIterator[Message]:
    schema = proto()
    request = schema.NodeWatchResourcesRequest()
    async for response in calls.stream(endpoint, schema, "DRAResourceHealth", "NodeWatchResources", request):
        yield response
