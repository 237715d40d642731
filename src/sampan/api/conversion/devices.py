"""resource.k8s.io: in v1beta1 the fields of a request are next to its name, and those of a device in `basic`."""

from collections.abc import Callable
from typing import Any

Change = Callable[[dict[str, Any]], dict[str, Any]]
EXACT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")
"""The fields of a request that v1 has in `exactly`."""


def claim_to_v1(claim: dict[str, Any]) -> dict[str, Any]:
    return _change_at_path(claim, _spec_requests(_request_to_v1), "spec")


def claim_to_v1beta1(claim: dict[str, Any]) -> dict[str, Any]:
    return _change_at_path(claim, _spec_requests(_request_to_v1beta1), "spec")


def template_to_v1(template: dict[str, Any]) -> dict[str, Any]:
    return _change_at_path(template, _spec_requests(_request_to_v1), "spec", "spec")


def template_to_v1beta1(template: dict[str, Any]) -> dict[str, Any]:
    return _change_at_path(template, _spec_requests(_request_to_v1beta1), "spec", "spec")


def slice_to_v1(piece: dict[str, Any]) -> dict[str, Any]:
    def change(spec: dict[str, Any]) -> dict[str, Any]:
        spec = {key: value for key, value in spec.items() if key not in ("nodeName", "allNodes") or value}
        return _convert_items(spec, "devices", lambda d: {"name": d.get("name", ""), **(d.get("basic") or {})})

    return _change_at_path(piece, change, "spec")


def slice_to_v1beta1(piece: dict[str, Any]) -> dict[str, Any]:
    def basic(device: dict[str, Any]) -> dict[str, Any]:
        return {"name": device.get("name", ""), "basic": {k: v for k, v in device.items() if k != "name"}}

    return _change_at_path(piece, lambda spec: _convert_items(spec, "devices", basic), "spec")


def _request_to_v1(request: dict[str, Any]) -> dict[str, Any]:
    exact = {key: request[key] for key in EXACT if request.get(key) not in ("", 0, None, [])}
    if request.get("adminAccess") is not None:
        exact["adminAccess"] = request["adminAccess"]
    request_fields = {key: value for key, value in request.items() if key not in EXACT}
    return {**request_fields, "exactly": {"deviceClassName": "", **exact}} if exact else request_fields


def _request_to_v1beta1(request: dict[str, Any]) -> dict[str, Any]:
    request_fields = {key: value for key, value in request.items() if key != "exactly"}
    return {**request_fields, **(request.get("exactly") or {})}


def _spec_requests(change: Change) -> Change:
    return lambda spec: _change_at_path(spec, lambda devices: _convert_items(devices, "requests", change), "devices")


def _change_at_path(value: dict[str, Any], change: Change, *path: str) -> dict[str, Any]:
    """Return a copy of the value with the part at the path changed, if it exists."""
    if not path:
        return change(value)
    inner = value.get(path[0])
    return value if inner is None else {**value, path[0]: _change_at_path(inner, change, *path[1:])}


def _convert_items(value: dict[str, Any], key: str, change: Change) -> dict[str, Any]:
    return {**value, key: [change(item) for item in value[key]]} if value.get(key) else value
