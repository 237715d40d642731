"""Evaluation of CEL device selectors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from sampan.api.limits import DEVICE_SELECTOR_COST, INLINE_CEL_CHARACTERS, INLINE_CEL_COST
from sampan.api.types.resource_v1 import Device, DeviceAttribute, DeviceSelector
from sampan.machinery.cel.devices import DeviceExpression, compile_selector, load_in_steps
from sampan.machinery.cel.errors import CelError, CostLimitExceeded
from sampan.scheduler.devices.allocator import MatchedDevice
from sampan.scheduler.devices.claim_requests import AllocationRefusal, RequestAlternative
from sampan.scheduler.devices.pools import CandidateDevice

T = TypeVar("T")
Job = Callable[[], None]
"""A computation that takes too long for the event loop. A generator that yields a job is resumed after the job was
called, which may happen in another thread."""
Pause = Job | None
"""The value that a generator yields: a job to call, or None where other tasks may run."""
_COST_LIMIT_ERROR = f"CEL runtime error: {CostLimitExceeded()}"
_MAX_CACHED_RESULTS = 64
"""How many results of expressions a device caches. It is limited because every user can write new expressions."""


class DeviceSelectors:
    def __init__(self) -> None:
        self._is_ready = False

    def ready(self) -> Generator[Pause, None, None]:
        """Load the CEL environment. The generator must be exhausted before the first call of `match_devices`."""
        if not self._is_ready:
            yield from load_in_steps()
            self._is_ready = True

    def match_devices(
        self, claim: int, request: RequestAlternative, candidates: Sequence[CandidateDevice]
    ) -> Generator[Pause, None, list[MatchedDevice]]:
        """Return the devices that the selectors of class and request match, and those for which they fail, with the
        error.

        One selector after the other is evaluated for all devices that are left, so that only one program is needed at
        a time.
        """
        matched = [MatchedDevice(candidate) for candidate in candidates]
        if request.device_class is not None:
            subject = f"class {request.device_class.metadata.name}"
            matched = yield from self._filter_devices(
                request.device_class.spec.selectors, matched, lambda error: AllocationRefusal(f"{subject}: {error}")
            )
        return (
            yield from self._filter_devices(
                request.selectors, matched, lambda error: AllocationRefusal(f": {error}", claim)
            )
        )

    def _filter_devices(
        self,
        selectors: Sequence[DeviceSelector],
        matched: list[MatchedDevice],
        refusal_of: Callable[[str], AllocationRefusal],
    ) -> Generator[Pause, None, list[MatchedDevice]]:
        for index, selector in enumerate(selectors):
            devices = []
            results = _SelectorResults(selector)
            for device in matched:
                result = True if device.error is not None else (yield from results.get_result(device.candidate))
                if isinstance(result, str):
                    devices.append(MatchedDevice(device.candidate, refusal_of(f"selector #{index}: {result}")))
                elif result:
                    devices.append(device)
            matched = devices
            yield None
        return matched


class _SelectorResults:
    """The results of one selector for devices: whether it matches, or the error."""

    def __init__(self, selector: DeviceSelector) -> None:
        self._expression = None if selector.cel is None else selector.cel.expression
        self._program: DeviceExpression | str | None = None
        """The compiled expression, or the error. It is compiled when a device needs it."""
        self._is_slow = False
        """Whether an evaluation has exceeded the cost that is allowed on the event loop."""

    def get_result(self, candidate: CandidateDevice) -> Generator[Pause, None, bool | str]:
        if self._expression is None:
            return "CEL expression empty (unsupported selector type?)"
        result = candidate.matched.get(self._expression)
        if result is None:
            result = yield from self._evaluate(self._expression, candidate)
            if len(candidate.matched) >= _MAX_CACHED_RESULTS:
                candidate.matched.clear()
            candidate.matched[self._expression] = result
        return result

    def _evaluate(self, expression: str, candidate: CandidateDevice) -> Generator[Pause, None, bool | str]:
        if self._program is None:
            if len(expression) > INLINE_CEL_CHARACTERS:
                self._program = yield from _run_as_job(lambda: _compile(expression))
            else:
                self._program = _compile(expression)
        program = self._program
        if isinstance(program, str):
            return program
        if not self._is_slow:
            result = _match(program, candidate, INLINE_CEL_COST)
            yield None
            if result is not None:
                return result
            self._is_slow = True
        result = yield from _run_as_job(lambda: _match(program, candidate, DEVICE_SELECTOR_COST))
        return _COST_LIMIT_ERROR if result is None else result


def _run_as_job(work: Callable[[], T]) -> Generator[Pause, None, T]:
    results: list[T] = []
    yield lambda: results.append(work())
    return results[0]


def _compile(expression: str) -> DeviceExpression | str:
    try:
        return compile_selector(expression)
    except CelError as error:
        return f"CEL compile error: {error}"


def _match(program: DeviceExpression, candidate: CandidateDevice, cost_limit: int) -> bool | str | None:
    """Return whether the device matches, or the error; None if the evaluation exceeds the cost limit."""
    try:
        return program.matches(device_value(candidate.id.driver, candidate.device), cost_limit)
    except CostLimitExceeded:
        return None
    except ValueError as error:  # evaluation failed, or an attribute is not a valid version
        return f"CEL runtime error: {error}"


def device_value(driver: str, device: Device) -> dict[str, Any]:
    """Return the `device` variable of expressions.

    Attributes and capacities are grouped by domain; names without a domain belong to the driver.
    """
    from sampan.machinery.cel.library.quantities import quantity_value

    attributes: dict[str, dict[str, Any]] = {driver: {}}
    for name, attribute in device.attributes.items():
        domain, own = _split(name, driver)
        attributes.setdefault(domain, {})[own] = _attribute(attribute)
    capacity: dict[str, dict[str, Any]] = {driver: {}}
    for name, amount in device.capacity.items():
        domain, own = _split(name, driver)
        capacity.setdefault(domain, {})[own] = quantity_value(str(amount.value))
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": bool(device.allowMultipleAllocations),
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, _, own = name.rpartition("/")
    return domain or driver, own


def _attribute(attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        from sampan.machinery.cel.library.versions import version_value

        return version_value(attribute.version)
    for value in (attribute.string, attribute.int, attribute.bool):
        if value is not None:
            return value
    return next((value for value in (attribute.strings, attribute.ints, attribute.bools) if value), [])
