"""Validation of the request policies of consumable device capacity."""

from sampan.api.faults import FieldError
from sampan.api.quantity import Quantity, parse
from sampan.api.types.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from sampan.apiserver.registry.devices.collections import validate_set
from sampan.apiserver.registry.podspec.formats import FieldErrors

_MOST_VALUES = 10


def validate_multi_allocatable_capacity(capacity: DeviceCapacity, at: str) -> FieldErrors:
    policy, path = capacity.requestPolicy, f"{at}.requestPolicy"
    if policy is None:
        return
    if policy.validValues and policy.validRange is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield FieldError.forbidden(path, text)
    elif policy.validValues or policy.validRange is not None:
        yield from _validate_request_policy(policy, parse(capacity.value), path)


def validate_single_allocatable_capacity(capacity: DeviceCapacity, at: str) -> FieldErrors:
    if capacity.requestPolicy is not None:
        yield FieldError.forbidden(f"{at}.requestPolicy", "allowMultipleAllocations must be true")


def _validate_request_policy(policy: CapacityRequestPolicy, whole: Quantity, at: str) -> FieldErrors:
    name = "validValues" if policy.validValues else "validRange"
    if policy.default is None:
        yield FieldError.required(f"{at}.default", f"required when {name} is defined")
    elif policy.validRange is None:
        yield from _validate_valid_values(policy.validValues, parse(policy.default), whole, f"{at}.validValues")
    else:
        yield from _validate_valid_range(policy.validRange, parse(policy.default), whole, f"{at}.validRange")


def _validate_valid_values(values: list[str], default: Quantity, whole: Quantity, at: str) -> FieldErrors:
    def too_large(text: str, here: str) -> FieldErrors:
        if parse(text) > whole:
            yield FieldError.invalid(here, text, f"option is larger than capacity value: {whole}")

    for index in range(1, len(values)):
        if parse(values[index - 1]) > parse(values[index]):
            yield FieldError.invalid(f"{at}[{index}]", values[index], "values must be sorted in ascending order")
    yield from validate_set(values, _MOST_VALUES, too_large, lambda text: str(parse(text).value()), at)
    if len(values) > _MOST_VALUES or all(parse(text) != default for text in values):
        yield FieldError.invalid(at, str(default), "default value is not valid according to the requestPolicy")


def _validate_valid_range(
    valid_range: CapacityRequestPolicyRange, default: Quantity, whole: Quantity, at: str
) -> FieldErrors:
    if valid_range.min is None:
        yield FieldError.required(f"{at}.min", "required when validRange is defined")
        return
    least, most = parse(valid_range.min), parse(valid_range.max) if valid_range.max is not None else None
    if least > whole:
        yield FieldError.invalid(f"{at}.min", str(least), f"min is larger than capacity value: {whole}")
    if default < least:
        yield FieldError.invalid(f"{at}.min", str(default), f"default is less than min: {least}")
    if most is not None:
        if least > most:
            yield FieldError.invalid(f"{at}.max", str(least), f"min is larger than max: {most}")
        if most > whole:
            yield FieldError.invalid(f"{at}.max", str(most), f"max is larger than capacity value: {whole}")
        if default > most:
            yield FieldError.invalid(f"{at}.max", str(default), f"default is more than max: {most}")
    if valid_range.step is not None:
        step = parse(valid_range.step)
        if least + step > whole:
            text = f"one step {least + step} is larger than capacity value: {whole}"
            yield FieldError.invalid(f"{at}.step", str(step), text)
        for value in (default, most):
            yield from _validate_step(value, least, step, f"{at}.step")


def _validate_step(value: Quantity | None, least: Quantity, step: Quantity, at: str) -> FieldErrors:
    """Yield an error for a value that is not a multiple of the step. A step of zero, on which kube-apiserver fails, is
    always an error.
    """
    if value is None:
        return
    if not step.value() or (value.value() - least.value()) % step.value():
        text = f"value is not a multiple of a given step ({step}) from ({least})"
        yield FieldError.invalid(at, str(value), text)
