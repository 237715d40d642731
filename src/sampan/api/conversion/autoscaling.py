"""HorizontalPodAutoscaler: v1 has only a CPU percentage; everything else of v2, the storage version, is kept in
annotations.

The JSON of the annotations is read by older clients and by kube-apiserver, so it is written exactly as there: metrics
in the flat form that v1 once had, behavior with capitalized field names.
"""

from collections.abc import Callable
from typing import Any

from sampan.api.codec import json
from sampan.api.conversion import metrics

METRICS = "autoscaling.alpha.kubernetes.io/metrics"
CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
CARRIED = {
    *(METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR),
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
}
DEFAULT_CPU_UTILIZATION = 80

Value = dict[str, Any]


def v2_to_v1(hpa: Value) -> Value:
    spec, status = hpa.get("spec") or {}, hpa.get("status") or {}
    desired, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    carried = {
        METRICS: [metrics.flatten_source(metric) for metric in desired if _cpu_target(metric) is None],
        CURRENT_METRICS: [metrics.flatten_status(metric) for metric in current],
        BEHAVIOR: _capital_behavior(spec["behavior"]) if spec.get("behavior") is not None else None,
        CONDITIONS: [_pick(c, *CONDITION_FIELDS) for c in status.get("conditions") or []],
    }
    target = next((percent for metric in desired if (percent := _cpu_target(metric)) is not None), None)
    usage = [percent for metric in current if (percent := _cpu_usage(metric)) is not None]
    return {
        **hpa,
        "metadata": _carry_annotations(hpa, {key: _go_json(value) for key, value in carried.items() if value}),
        "spec": _pick(spec, "scaleTargetRef", "minReplicas", "maxReplicas")
        | _set("targetCPUUtilizationPercentage", target),
        "status": _pick(status, "observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
        | _set("currentCPUUtilizationPercentage", usage[-1] if usage else None),
    }


def v1_to_v2(hpa: Value) -> Value:
    spec, status = hpa.get("spec") or {}, hpa.get("status") or {}
    carried = (hpa.get("metadata") or {}).get("annotations") or {}
    desired = _read_list(carried.get(METRICS), metrics.nest_source) or []
    if (percent := spec.get("targetCPUUtilizationPercentage")) is not None:
        desired.append(_cpu_metric(percent))
    current = _read_list(carried.get(CURRENT_METRICS), metrics.nest_status)
    if current is None and (usage := status.get("currentCPUUtilizationPercentage")) is not None:
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": usage}}}]
    return {
        **hpa,
        "metadata": _carry_annotations(hpa, {}),
        "spec": _pick(spec, "scaleTargetRef", "minReplicas", "maxReplicas")
        | {"metrics": desired or [_cpu_metric(DEFAULT_CPU_UTILIZATION)]}
        | _set("behavior", _read_behavior(carried.get(BEHAVIOR))),
        "status": _pick(status, "observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
        | _set("currentMetrics", current)
        | _set("conditions", _read_list(carried.get(CONDITIONS), dict)),
    }


CONDITION_FIELDS = ("type", "status", "lastTransitionTime", "reason", "message", "observedGeneration")


def _carry_annotations(hpa: Value, carried: dict[str, str]) -> Value:
    metadata = hpa.get("metadata") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in CARRIED} | carried
    other_metadata = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**other_metadata, "annotations": annotations} if annotations else other_metadata


def _cpu_metric(percent: int) -> Value:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_target(metric: Value) -> int | None:
    return _cpu(metric, "target")


def _cpu_usage(metric: Value) -> int | None:
    return _cpu(metric, "current")


def _cpu(metric: Value, part: str) -> int | None:
    resource = metric.get("resource")
    if metric.get("type") != "Resource" or not resource or resource.get("name") != "cpu":
        return None
    utilization: int | None = (resource.get(part) or {}).get("averageUtilization")
    return utilization


def _capital_behavior(behavior: Value) -> Value:
    return {
        name: _capital_rules(behavior.get(key)) for name, key in (("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown"))
    }


def _capital_rules(rules: Value | None) -> Value | None:
    if rules is None:
        return None
    policies = [
        {"Type": p.get("type", ""), "Value": p.get("value", 0), "PeriodSeconds": p.get("periodSeconds", 0)}
        for p in rules.get("policies") or []
    ]
    return {
        "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "SelectPolicy": rules.get("selectPolicy"),
        "Policies": policies if rules.get("policies") is not None else None,
        "Tolerance": rules.get("tolerance"),
    }


def _read_behavior(text: str | None) -> Value | None:
    behavior = _lower_first(_read(text))
    if not isinstance(behavior, dict):
        return None
    declared_behavior = {
        key: _without_nulls(behavior[key]) for key in ("scaleUp", "scaleDown") if isinstance(behavior.get(key), dict)
    }
    return declared_behavior or None


def _lower_first(value: Any) -> Any:
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _lower_first(item) for key, item in value.items()}
    return [_lower_first(item) for item in value] if isinstance(value, list) else value


def _without_nulls(value: Value) -> Value:
    return {key: item for key, item in value.items() if item is not None}


def _go_json(value: Any) -> str:
    """Return JSON as Go writes it: with the characters that are special in HTML escaped."""
    text = json.encode(value).decode()
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _read(text: str | None) -> Any:
    """Return the value of an annotation, or None if it is not valid JSON."""
    if text is None:
        return None
    try:
        return json.decode_any(text.encode())[0]
    except json.DecodeError:
        return None


def _read_list(text: str | None, convert: Callable[[Value], Value]) -> list[Value] | None:
    items = _read(text)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return None
    try:
        return [convert(item) for item in items]
    except (AttributeError, TypeError, ValueError):  # an item has an unexpected shape
        return None


def _pick(value: Value, *keys: str) -> Value:
    return {key: value[key] for key in keys if key in value}


def _set(key: str, value: Any) -> Value:
    return {} if value is None else {key: value}
