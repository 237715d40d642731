"""Builders of pods and containers from plain values."""

from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Container, Pod


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    spec = {"containers": [{"name": "c", "image": "i"}], **(spec or {})}
    value = {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **metadata}, "spec": spec}
    return json.from_value(value, Pod)


def container(**fields: Any) -> Container:
    return json.from_value({"name": "c", "image": "i", **fields}, Container)
