"""Validation of the scaling behavior of an autoscaler."""

from sampan.api import quantity
from sampan.api.faults import FieldError
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules
from sampan.apiserver.registry.podspec.formats import NEGATIVE, FieldErrors, validate_optional_one_of, validate_positive

_CHOICES = ("Disabled", "Max", "Min")
_TYPES = ("Percent", "Pods")
_WINDOW_MOST_S, _PERIOD_MOST_S = 3600, 1800


def validate_behavior(behavior: HorizontalPodAutoscalerBehavior, at: str) -> FieldErrors:
    if behavior.scaleUp is not None:
        yield from _validate_scaling_rules(behavior.scaleUp, f"{at}.scaleUp")
    if behavior.scaleDown is not None:
        yield from _validate_scaling_rules(behavior.scaleDown, f"{at}.scaleDown")


def _validate_scaling_rules(rules: HPAScalingRules, at: str) -> FieldErrors:
    window, path = rules.stabilizationWindowSeconds or 0, f"{at}.stabilizationWindowSeconds"
    if window < 0:
        yield FieldError.invalid(path, window, "must be greater than or equal to zero")
    if window > _WINDOW_MOST_S:
        yield FieldError.invalid(path, window, f"must be less than or equal to {_WINDOW_MOST_S}")
    yield from validate_optional_one_of(rules.selectPolicy, _CHOICES, f"{at}.selectPolicy")
    if not rules.policies:
        yield FieldError.required(f"{at}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.policies or ()):
        yield from _validate_scaling_policy(policy, f"{at}.policies[{index}]")
    if rules.tolerance is not None and quantity.parse(rules.tolerance).sign < 0:
        yield FieldError.invalid(f"{at}.tolerance", rules.tolerance, NEGATIVE)


def _validate_scaling_policy(policy: HPAScalingPolicy, at: str) -> FieldErrors:
    yield from validate_optional_one_of(policy.type, _TYPES, f"{at}.type")
    yield from validate_positive(policy.value, f"{at}.value")
    yield from validate_positive(policy.periodSeconds, f"{at}.periodSeconds")
    if policy.periodSeconds > _PERIOD_MOST_S:
        text = f"must be less than or equal to {_PERIOD_MOST_S}"
        yield FieldError.invalid(f"{at}.periodSeconds", policy.periodSeconds, text)
