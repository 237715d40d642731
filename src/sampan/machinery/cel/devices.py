"""Device selectors: expressions over `device`, as the server validates them and the scheduler evaluates them
(`k8s.io/dynamic-resource-allocation/cel`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sampan.api.limits import DEVICE_SELECTOR_COST
from sampan.machinery.cel.errors import CelError

if TYPE_CHECKING:
    from sampan.machinery.cel.checker.types import Type
    from sampan.machinery.cel.environment import Environment, Program

_FIELDS_BY_DOMAIN: Final = ("attributes", "capacity")
_DOMAIN_CHARACTERS, _NAME_CHARACTERS, _VALUE_CHARACTERS = 63, 32, 64
_ENTRIES = 32
"""The maximum number of attributes and capacities of a device."""
_EMPTY: Final[Mapping[str, Any]] = {}


def _make_domain_map(value: Type) -> Type:
    from sampan.machinery.cel.checker.types import STRING, limit_size, map_of

    inner = map_of(limit_size(STRING, _NAME_CHARACTERS), value, max_size=_ENTRIES)
    return map_of(limit_size(STRING, _DOMAIN_CHARACTERS), inner, max_size=_ENTRIES)


@cache
def _environment() -> Environment:
    """Return the environment; the engine is imported with the first selector."""
    from sampan.machinery.cel.checker.types import ANY, BOOL, STRING, ObjectType, limit_size
    from sampan.machinery.cel.environment import Environment
    from sampan.machinery.cel.library import BINDINGS
    from sampan.machinery.cel.library.quantities import QUANTITY

    device = ObjectType(
        "kubernetes.DRADevice",
        {
            "driver": limit_size(STRING, _DOMAIN_CHARACTERS),
            "attributes": _make_domain_map(limit_size(ANY, _VALUE_CHARACTERS)),
            "capacity": _make_domain_map(QUANTITY),
            "allowMultipleAllocations": BOOL,
        },
    )
    return Environment({"device": device}, libraries=(BINDINGS,), cost_limit=DEVICE_SELECTOR_COST)


class DeviceExpression:
    def __init__(self, program: Program) -> None:
        self._program = program
        self.is_too_costly = program.estimated_cost.max > DEVICE_SELECTOR_COST
        """Whether the estimated cost exceeds the limit of an evaluation: the server rejects the expression then."""

    def matches(self, device: Mapping[str, Any], cost_limit: int = DEVICE_SELECTOR_COST) -> bool:
        """Whether the selector matches the device, a mapping of its fields. A domain without attributes of the device
        is empty. Raise CelError if the evaluation fails, CostLimitExceeded if it costs more than the limit."""
        from sampan.machinery.cel.runtime.values import DefaultMap

        value = {**device, **{name: DefaultMap(device[name], _EMPTY) for name in _FIELDS_BY_DOMAIN}}
        result = self._program.evaluate({"device": value}, cost_limit)
        if not isinstance(result, bool):
            raise CelError("must evaluate to bool")
        return result


def load_in_steps() -> Iterator[None]:
    """Prepare for the first expression in steps, yielding between them, because loading takes milliseconds."""
    import sampan.machinery.cel.checker.checker
    import sampan.machinery.cel.syntax.parser

    yield
    import sampan.machinery.cel.environment  # noqa: F401

    yield
    from sampan.machinery.cel.library import addresses, standard, strings  # noqa: F401

    yield
    from sampan.machinery.cel.library import kubernetes

    kubernetes()
    yield
    _environment()
    yield
    _environment().compile("device.driver == ''")
    yield


def compile_selector(text: str) -> DeviceExpression:
    """Compile a device selector. Raise CelError."""
    try:
        program = _environment().compile(text)
    except CelError as error:
        raise CelError(f"compilation failed: {error}") from None
    if program.result_type.kind not in ("bool", "dyn", "any"):
        raise CelError(f"must evaluate to bool or the unknown type, not {program.result_type}")
    return DeviceExpression(program)
