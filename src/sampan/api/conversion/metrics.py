"""Metrics of an autoscaler in the flat form that autoscaling/v1 once had, which its annotations hold, and back."""

from collections.abc import Callable
from typing import Any

from sampan.api.values import quantity

Value = dict[str, Any]
Form = Callable[[Value], Value]


def flatten_source(metric: Value) -> Value:
    return _convert_metric(metric, _FLAT_SOURCES)


def flatten_status(metric: Value) -> Value:
    return _convert_metric(metric, _FLAT_STATUSES)


def nest_source(metric: Value) -> Value:
    return _convert_metric(metric, _NESTED_SOURCES)


def nest_status(metric: Value) -> Value:
    return _convert_metric(metric, _NESTED_STATUSES)


def _convert_metric(metric: Value, forms: dict[str, Form]) -> Value:
    sources = {key: form(metric[key]) for key, form in forms.items() if metric.get(key) is not None}
    return {"type": metric.get("type", ""), **sources}


def _set(key: str, value: Any) -> Value:
    return {} if value is None else {key: value}


def _reference(value: Value) -> Value:
    return {key: value[key] for key in ("kind", "name", "apiVersion") if key in value}


def _resource_source(source: Value) -> Value:
    target = source.get("target") or {}
    return (
        {"name": source.get("name", "")}
        | _set("targetAverageUtilization", target.get("averageUtilization"))
        | _set("targetAverageValue", target.get("averageValue"))
    )


def _resource_status(status: Value) -> Value:
    current = status.get("current") or {}
    return (
        {"name": status.get("name", "")}
        | _set("currentAverageUtilization", current.get("averageUtilization"))
        | {"currentAverageValue": current.get("averageValue") or "0"}
    )


def _object_form(part: str, value_name: str) -> Form:
    def form(source: Value) -> Value:
        values, metric = source.get(part) or {}, source.get("metric") or {}
        return (
            {
                "target": _reference(source.get("describedObject") or {}),
                "metricName": metric.get("name", ""),
                value_name: values.get("value") or "0",
            }
            | _set("selector", metric.get("selector"))
            | _set("averageValue", values.get("averageValue"))
        )

    return form


def _pods_form(part: str, value_name: str) -> Form:
    def form(source: Value) -> Value:
        metric, values = source.get("metric") or {}, source.get(part) or {}
        flat = {"metricName": metric.get("name", ""), value_name: values.get("averageValue") or "0"}
        return flat | _set("selector", metric.get("selector"))

    return form


def _external_source(source: Value) -> Value:
    metric, target = source.get("metric") or {}, source.get("target") or {}
    return (
        {"metricName": metric.get("name", "")}
        | _set("metricSelector", metric.get("selector"))
        | _set("targetValue", target.get("value"))
        | _set("targetAverageValue", target.get("averageValue"))
    )


def _external_status(status: Value) -> Value:
    metric, current = status.get("metric") or {}, status.get("current") or {}
    return (
        {"metricName": metric.get("name", "")}
        | _set("metricSelector", metric.get("selector"))
        | {"currentValue": current.get("value") or "0"}
        | _set("currentAverageValue", current.get("averageValue"))
    )


def _with_container(form: Form) -> Form:
    return lambda source: {**form(source), "container": source.get("container", "")}


_FLAT_SOURCES = {
    "object": _object_form("target", "targetValue"),
    "pods": _pods_form("target", "targetAverageValue"),
    "resource": _resource_source,
    "containerResource": _with_container(_resource_source),
    "external": _external_source,
}
_FLAT_STATUSES = {
    "object": _object_form("current", "currentValue"),
    "pods": _pods_form("current", "currentAverageValue"),
    "resource": _resource_status,
    "containerResource": _with_container(_resource_status),
    "external": _external_status,
}


def _from_resource_source(flat: Value) -> Value:
    utilization = flat.get("targetAverageUtilization")
    target = (
        {"type": "AverageValue" if utilization is None else "Utilization"}
        | _set("averageValue", flat.get("targetAverageValue"))
        | _set("averageUtilization", utilization)
    )
    return {"name": flat.get("name", ""), "target": target}


def _from_resource_status(flat: Value) -> Value:
    current = {"averageValue": flat.get("currentAverageValue") or "0"}
    return {
        "name": flat.get("name", ""),
        "current": current | _set("averageUtilization", flat.get("currentAverageUtilization")),
    }


def _from_object_source(flat: Value) -> Value:
    average, value = flat.get("averageValue"), flat.get("targetValue") or "0"
    target = {"type": "Value" if average is None else "AverageValue"}
    if average is None or quantity.parse(str(value)) != quantity.parse("0"):
        target["value"] = value
    return _from_object(flat) | {"target": target | _set("averageValue", average)}


def _from_object_status(flat: Value) -> Value:
    current = {"value": flat.get("currentValue") or "0"} | _set("averageValue", flat.get("averageValue"))
    return _from_object(flat) | {"current": current}


def _from_object(flat: Value) -> Value:
    return {"describedObject": flat.get("target") or {}, "metric": _metric(flat, "selector")}


def _from_pods_source(flat: Value) -> Value:
    target = {"type": "AverageValue", "averageValue": flat.get("targetAverageValue") or "0"}
    return {"metric": _metric(flat, "selector"), "target": target}


def _from_pods_status(flat: Value) -> Value:
    current = {"averageValue": flat.get("currentAverageValue") or "0"}
    return {"metric": _metric(flat, "selector"), "current": current}


def _from_external_source(flat: Value) -> Value:
    value = flat.get("targetValue")
    target = {"type": "AverageValue" if value is None else "Value"} | _set("value", value)
    return {
        "metric": _metric(flat, "metricSelector"),
        "target": target | _set("averageValue", flat.get("targetAverageValue")),
    }


def _from_external_status(flat: Value) -> Value:
    current = {"value": flat.get("currentValue") or "0"} | _set("averageValue", flat.get("currentAverageValue"))
    return {"metric": _metric(flat, "metricSelector"), "current": current}


def _metric(flat: Value, selector: str) -> Value:
    return {"name": flat.get("metricName", "")} | _set("selector", flat.get(selector))


_NESTED_SOURCES = {
    "object": _from_object_source,
    "pods": _from_pods_source,
    "resource": _from_resource_source,
    "containerResource": _with_container(_from_resource_source),
    "external": _from_external_source,
}
_NESTED_STATUSES = {
    "object": _from_object_status,
    "pods": _from_pods_status,
    "resource": _from_resource_status,
    "containerResource": _with_container(_from_resource_status),
    "external": _from_external_status,
}
