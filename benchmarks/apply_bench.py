"""Field ownership in the writes of an ordinary pod, and server-side apply."""

from collections.abc import Iterator
from typing import Any

import msgspec

from benchmarks import Row
from benchmarks.sample_pods import condition
from benchmarks.timing import best_us
from sampan.api.codec import json
from sampan.api.scheme import builtin_scheme
from sampan.api.types.core_v1 import Pod
from sampan.apiserver.fieldmanager import FieldOwnership
from sampan.apiserver.registry.behaviors import make_behavior
from sampan.apiserver.registry.kinds.pods import BEHAVIOR
from sampan.apiserver.registry.registry import Registry
from sampan.host.clock import RealClock
from sampan.machinery.apply import sets
from sampan.storage.memory import MemoryBackend

NOW = "2026-01-01T00:00:00Z"


def rows() -> Iterator[Row]:
    clock = RealClock()
    registry = Registry(
        scheme=builtin_scheme(),
        backend=MemoryBackend(clock=clock),
        clock=clock,
        start_task=lambda _: _never(),
        make_behavior=make_behavior,
    )
    ownership = FieldOwnership(registry)
    pods = registry.scheme.find_by_kind("", "v1", "Pod")
    assert pods is not None
    created, bare = _pod(), _pod()

    def create() -> None:
        created.metadata.managedFields = []
        ownership.record_create(pods, created, manager="bench", now=NOW)

    create()
    live = json.to_value(created)
    running = msgspec.json.decode(msgspec.json.encode(created), type=Pod)
    status: dict[str, Any] = {"phase": "Running", "conditions": [condition("Ready", "True")]}
    running = json.from_value({**live, "status": {**live["status"], **status}}, Pod)
    kept = running.metadata.managedFields

    def update(obj: Pod, subresource: str) -> None:
        obj.metadata.managedFields = kept
        ownership.record_update(pods, subresource, obj, created, live, is_reset=False, manager="kubelet", now=NOW)

    applied = {"apiVersion": "v1", "kind": "Pod", **_sent()}
    managers = ownership.get_manager(pods, "")
    base = json.to_value(bare)

    def apply() -> None:
        managers.apply(base, applied, kept, manager="applier", force=True, now=NOW)

    encoded = sets.encode(sets.decode(bytes(kept[0].fieldsV1)))
    yield Row("managers of a new pod", best_us(create), "us", 250)
    yield Row("managers after a change of its status", best_us(lambda: update(running, "status")), "us", 400)
    yield Row("managers after a write that changes nothing", best_us(lambda: update(created, "")), "us", 400)
    yield Row("server-side apply to a pod", best_us(apply, times=100), "us", 1000)
    yield Row("FieldsV1 of a pod read", best_us(lambda: sets.decode(encoded)), "us")


def _never() -> Any:
    raise RuntimeError("no cache is opened here")


def _sent() -> dict[str, Any]:
    """Return a pod as a client sends it."""
    container = {
        "name": "main",
        "image": "nginx:1.25",
        "command": ["nginx", "-g", "daemon off;"],
        "env": [{"name": f"VAR_{i}", "value": "x" * 20} for i in range(8)],
        "ports": [{"containerPort": 80}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
    }
    labels = {"app": "bench", "shard": "1"}
    return {"metadata": {"name": "p", "namespace": "default", "labels": labels}, "spec": {"containers": [container]}}


def _pod() -> Pod:
    """Return a pod with its defaults, as it is when its managed fields are computed."""
    pod = json.from_value({"apiVersion": "v1", "kind": "Pod", **_sent()}, Pod)
    BEHAVIOR.strategy.default(pod)
    return pod
