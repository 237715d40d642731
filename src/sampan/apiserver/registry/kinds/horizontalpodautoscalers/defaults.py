"""Default values of HorizontalPodAutoscalers."""

from sampan.api.types.autoscaling_v2 import (
    HorizontalPodAutoscaler,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)

_CPU_PERCENT = 80
_PERIOD_S = 15


def default_autoscaler(obj: HorizontalPodAutoscaler) -> None:
    spec = obj.spec
    if spec.minReplicas is None:
        spec.minReplicas = 1
    if not spec.metrics:
        target = MetricTarget(type="Utilization", averageUtilization=_CPU_PERCENT)
        spec.metrics = [MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))]
    if spec.behavior is not None:
        spec.behavior.scaleUp = _complete_rules(spec.behavior.scaleUp, _up())
        spec.behavior.scaleDown = _complete_rules(spec.behavior.scaleDown, _down())


def _complete_rules(rules: HPAScalingRules | None, defaults: HPAScalingRules) -> HPAScalingRules:
    """Return the rules with the fields that are unset taken from `defaults`."""
    if rules is None:
        return defaults
    for field in HPAScalingRules.__struct_fields__:
        if getattr(rules, field) is None:
            setattr(rules, field, getattr(defaults, field))
    return rules


def _up() -> HPAScalingRules:
    """Return the default for scaling up: by 4 pods or 100% per 15 seconds, whichever is more, without stabilization."""
    policies = [_policy("Pods", 4), _policy("Percent", 100)]
    return HPAScalingRules(stabilizationWindowSeconds=0, selectPolicy="Max", policies=policies)


def _down() -> HPAScalingRules:
    """Return the default for scaling down: by 100% per 15 seconds, with the controller's stabilization window."""
    return HPAScalingRules(selectPolicy="Max", policies=[_policy("Percent", 100)])


def _policy(type: str, value: int) -> HPAScalingPolicy:
    return HPAScalingPolicy(type=type, value=value, periodSeconds=_PERIOD_S)
