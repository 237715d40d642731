"""Builders of pods for tests."""

from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Pod
from sampan.apiserver.registry.podspec.defaults import default_pod, default_pod_resources
from sampan.apiserver.registry.podspec.spec import validate_pod_create

CONTAINER = {"name": "c", "image": "nginx:1"}


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    """Return a pod as a client sends it, with one container unless the spec has containers."""
    return codec.from_value(pod_value(spec, **metadata), Pod)


def pod_value(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    meta = {"name": "a", "namespace": "default", **metadata}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": [CONTAINER], **(spec or {})}}


def pod_with_defaults(spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    """Return a pod with the defaults that the server sets."""
    new_pod = pod(spec, **metadata)
    default_pod(new_pod)
    default_pod_resources(new_pod.spec)
    return new_pod


def spec_with_container(**fields: Any) -> dict[str, Any]:
    """Return a spec whose only container has these fields in addition to name and image."""
    return {"containers": [{**CONTAINER, **fields}]}


def errors_of(spec: dict[str, Any], **metadata: Any) -> list[str]:
    return [str(fault) for fault in validate_pod_create(pod_with_defaults(spec, **metadata))]
