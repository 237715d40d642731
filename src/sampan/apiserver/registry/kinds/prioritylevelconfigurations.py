"""PriorityLevelConfiguration: the concurrency limit of a priority level, and what happens to excess requests."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.flowcontrol_v1 import (
    ExemptPriorityLevelConfiguration,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    PriorityLevelConfigurationStatus,
    QueuingConfiguration,
)
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.flowschemas import FlowStatusStrategy, validate_conditions
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_EXEMPT, _CATCH_ALL = "exempt", "catch-all"
_TYPES, _RESPONSES = ("Exempt", "Limited"), ("Queue", "Reject")
_SHARES, _HAND, _QUEUES, _QUEUE_LENGTH = 30, 8, 64, 50
_MAX_QUEUES, _MAX_HASH_BITS = 10_000_000, 60
_OLD_ANNOTATION = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

MANDATORY = {
    _EXEMPT: PriorityLevelConfigurationSpec(
        type="Exempt", exempt=ExemptPriorityLevelConfiguration(nominalConcurrencyShares=0, lendablePercent=0)
    ),
    _CATCH_ALL: PriorityLevelConfigurationSpec(
        type="Limited",
        limited=LimitedPriorityLevelConfiguration(
            nominalConcurrencyShares=5, limitResponse=LimitResponse(type="Reject"), lendablePercent=0
        ),
    ),
}
"""The specs of the mandatory priority levels, which are immutable except for `spec.exempt` of the level `exempt`."""


def _shares(level: PriorityLevelConfiguration, now: float) -> Any:
    return level.spec.limited.nominalConcurrencyShares if level.spec.limited is not None else cells.NONE


def _make_queuing_cell(field: str) -> Callable[[PriorityLevelConfiguration, float], Any]:
    def value(level: PriorityLevelConfiguration, now: float) -> Any:
        limited = level.spec.limited
        queuing = limited.limitResponse.queuing if limited is not None else None
        return getattr(queuing, field) if queuing is not None else cells.NONE

    return value


_QUEUING = "spec.limited.limitResponse.queuing"


_COLUMNS = (
    NAME,
    Column("Type", lambda level, now: level.spec.type, field="spec.type"),
    Column("NominalConcurrencyShares", _shares, field="spec.limited.nominalConcurrencyShares"),
    Column("Queues", _make_queuing_cell("queues"), field=f"{_QUEUING}.queues"),
    Column("HandSize", _make_queuing_cell("handSize"), field=f"{_QUEUING}.handSize"),
    Column("QueueLengthLimit", _make_queuing_cell("queueLengthLimit"), field=f"{_QUEUING}.queueLengthLimit"),
    AGE,
)


class PriorityLevelStrategy(Strategy):
    columns = _COLUMNS
    counts_generation = True

    def default(self, obj: PriorityLevelConfiguration) -> None:
        if obj.spec.limited is not None:
            _default_limited(obj.spec.limited)
        exempt = obj.spec.exempt
        if exempt is not None:
            exempt.nominalConcurrencyShares = exempt.nominalConcurrencyShares or 0
            exempt.lendablePercent = exempt.lendablePercent or 0

    def prepare_for_create(self, ctx: Context, obj: PriorityLevelConfiguration) -> None:
        obj.status = PriorityLevelConfigurationStatus()

    def validate_create(self, ctx: Context, obj: PriorityLevelConfiguration) -> Iterable[FieldError]:
        if _OLD_ANNOTATION in obj.metadata.annotations:
            yield FieldError.forbidden("metadata.annotations", f"annotation '{_OLD_ANNOTATION}' is forbidden")
        yield from _validate_spec(obj.spec, obj.metadata.name)
        yield from _validate_mandatory_level(obj)
        yield from validate_conditions(obj.status.conditions)

    def prepare_for_update(
        self, ctx: Context, obj: PriorityLevelConfiguration, old: PriorityLevelConfiguration
    ) -> None:
        obj.status = old.status

    def validate_update(
        self, ctx: Context, obj: PriorityLevelConfiguration, old: PriorityLevelConfiguration
    ) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


def _default_limited(limited: LimitedPriorityLevelConfiguration) -> None:
    if limited.nominalConcurrencyShares is None:
        limited.nominalConcurrencyShares = _SHARES
    limited.lendablePercent = limited.lendablePercent or 0
    queuing = limited.limitResponse.queuing
    if queuing is not None:
        queuing.handSize = queuing.handSize or _HAND
        queuing.queues = queuing.queues or _QUEUES
        queuing.queueLengthLimit = queuing.queueLengthLimit or _QUEUE_LENGTH


def _validate_mandatory_level(level: PriorityLevelConfiguration) -> FieldErrors:
    name, fixed = level.metadata.name, MANDATORY.get(level.metadata.name)
    if fixed is None:
        return
    is_exempt = name == _EXEMPT
    spec = msgspec.structs.replace(level.spec, exempt=fixed.exempt) if is_exempt else level.spec
    if spec != fixed:
        but = " except the 'spec.exempt' field" if is_exempt else ""
        yield FieldError.invalid(
            "spec", encode_error_value(level.spec), f"spec of '{name}'{but} must equal the fixed value"
        )


def _validate_spec(spec: PriorityLevelConfigurationSpec, name: str) -> FieldErrors:
    if (name == _EXEMPT) != (spec.type == "Exempt"):
        text = "must be 'Exempt' if and only if `name` is 'exempt'"
        yield FieldError.invalid("spec.type", spec.type, text)
    if spec.type == "Exempt" and spec.exempt is not None:
        yield from _validate_share(spec.exempt.nominalConcurrencyShares, "spec.exempt")
        yield from _validate_lending(spec.exempt.lendablePercent, "spec.exempt")
    elif spec.type == "Limited" and spec.limited is not None:
        yield from _validate_limited(spec.limited, "spec.limited")
    elif spec.type and spec.type not in _TYPES:
        yield FieldError.not_supported("spec.type", spec.type, _TYPES)


def _validate_limited(limited: LimitedPriorityLevelConfiguration, path: str) -> FieldErrors:
    yield from _validate_share(limited.nominalConcurrencyShares, path)
    yield from _validate_response(limited.limitResponse, f"{path}.limitResponse")
    yield from _validate_lending(limited.lendablePercent, path)
    maximum = limited.borrowingLimitPercent
    if maximum is not None and maximum < 0:
        yield FieldError.invalid(
            f"{path}.borrowingLimitPercent", maximum, "if specified, must be a non-negative integer"
        )


def _validate_share(shares: int | None, path: str) -> FieldErrors:
    if shares is not None and shares < 0:
        yield FieldError.invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer")


def _validate_lending(percent: int | None, path: str) -> FieldErrors:
    for text in names.range_errors(percent, 0, 100) if percent is not None else ():
        yield FieldError.invalid(f"{path}.lendablePercent", percent, text)


def _validate_response(response: LimitResponse, path: str) -> FieldErrors:
    if response.type == "Queue" and response.queuing is not None:
        yield from _validate_queuing(response.queuing, f"{path}.queuing")
    elif response.type and response.type not in _RESPONSES:
        yield FieldError.not_supported(f"{path}.type", response.type, _RESPONSES)


def _validate_queuing(queuing: QueuingConfiguration, path: str) -> FieldErrors:
    queues, hand, length = queuing.queues, queuing.handSize, queuing.queueLengthLimit
    if length <= 0:
        yield FieldError.invalid(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield FieldError.invalid(f"{path}.queues", queues, "must be positive")
    elif queues > _MAX_QUEUES:
        yield FieldError.invalid(f"{path}.queues", queues, f"must not be greater than {_MAX_QUEUES}")
    if hand <= 0:
        yield FieldError.invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        yield FieldError.invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _MAX_HASH_BITS:
        start = f"required entropy bits of deckSize {queues} and handSize {hand}"
        yield FieldError.invalid(f"{path}.handSize", hand, f"{start} should not be greater than {_MAX_HASH_BITS}")


_strategy = PriorityLevelStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": FlowStatusStrategy(_strategy)})
