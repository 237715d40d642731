"""Health of devices as reported by drivers of dynamic resources. A report expires after its timeout."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import Message
from sampan.machinery.clock import Clock

if TYPE_CHECKING:
    from sampan.machinery.proto import Schema

HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"
_WORDS = {1: HEALTHY, 2: UNHEALTHY}
_TIMEOUT_S = 30.0
_LONGEST = 1024


def proto() -> Schema:
    return calls.read(Path(__file__).parent / "health.proto")


class Known(NamedTuple):
    health: str
    message: str
    until: float


Device = tuple[str, str]
"""Pool and device name."""


class HealthTable:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, dict[Device, Known]] = {}

    def get(self, driver: str, pool: str, device: str) -> Known:
        state = self._known.get(driver, {}).get((pool, device))
        if state is None or state.until <= self._clock.monotonic():
            return Known(UNKNOWN, "", 0)
        return state

    def note(self, driver: str, answer: Message) -> set[Device]:
        """Store the report. Return the devices whose health or message has changed."""
        before, now = self._known.get(driver, {}), self._clock.monotonic()
        after = {
            (device_health.device.pool_name, device_health.device.device_name): _read(device_health, now)
            for device_health in answer.devices
        }
        changed = {device for device in {*before, *after} if _said(before.get(device)) != _said(after.get(device))}
        self._known[driver] = after
        return changed

    def forget(self, driver: str) -> set[Device]:
        return set(self._known.pop(driver, {}))


def _read(said: Message, now: float) -> Known:
    timeout_s = said.health_check_timeout_seconds if said.health_check_timeout_seconds > 0 else _TIMEOUT_S
    message = said.message if len(said.message) <= _LONGEST else f"{said.message[: _LONGEST - 3]}..."
    return Known(_WORDS.get(said.health, UNKNOWN), message, now + timeout_s)


def _said(known: Known | None) -> tuple[str, str]:
    return (known.health, known.message) if known is not None else (UNKNOWN, "")


async def watched(endpoint: str) -> AsyncIterator[Message]:
    schema = proto()
    request = schema.NodeWatchResourcesRequest()
    async for answer in calls.stream(endpoint, schema, "DRAResourceHealth", "NodeWatchResources", request):
        yield answer
