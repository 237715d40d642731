"""The strategy of one kind without a server: objects are defaulted, prepared and validated as the store does it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from sampan.api.codec import json as codec
from sampan.api.feature_gates import FeatureGates
from sampan.api.types.base import Object
from sampan.api.values.times import format_time
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.declarative import complete_errors
from sampan.apiserver.registry.gated_fields import GatedFields
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.registry.strategy_services import StrategyServices
from sampan.apiserver.request.call import UserInfo

NOW = 1_700_000_000.0
UID = "0f95ccb3-b19c-418f-83ce-eebe340bf181"
LABELS = {"app": "a"}


def template(spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """Return a pod template, with one container unless the spec has its own."""
    containers = [{"name": "c", "image": "nginx:1"}]
    return {"metadata": {"labels": LABELS, **meta}, "spec": {"containers": containers, **(spec or {})}}


class Rules:
    """Applies a strategy to objects of one kind; `spec` is the default spec of every object."""

    def __init__(
        self, behavior: ResourceBehavior, kind: type[Object], spec: dict[str, Any], gates: FeatureGates | None = None
    ) -> None:
        self._behavior, self._kind, self._spec = behavior, kind, spec
        self._strategy = behavior.strategy
        gates = gates or FeatureGates()
        self._gated_fields = GatedFields(gates)
        services = cast(StrategyServices, SimpleNamespace(feature_gates=gates))
        self._ctx = Context(services=services, user=UserInfo(name="admin"), now=format_time(NOW), namespace="ns")

    def create(self, spec: dict[str, Any] | None = None, **meta: Any) -> Any:
        """Return a new object as it would be stored, whether it is valid or not."""
        obj = self._read(spec, meta)
        obj.metadata.uid, obj.metadata.creationTimestamp = UID, self._ctx.now
        if self._strategy.counts_generation:
            obj.metadata.generation = 1
        self._strategy.prepare_for_create(self._ctx, obj)
        self._gated_fields.drop(obj, None)
        return obj

    def faults(self, spec: dict[str, Any] | None = None, **meta: Any) -> list[str]:
        obj = self.create(spec, **meta)
        own = list(self._strategy.validate_create(self._ctx, obj))
        return [str(fault) for fault in complete_errors(own, obj, None, self._ctx.is_enabled)]

    def update(self, old: Any, spec: dict[str, Any] | None = None, **meta: Any) -> tuple[Any, list[str]]:
        """Return the object that a PUT over `old` would store, and its validation errors."""
        return self._change(self._strategy, old, self._read(spec, meta))

    def update_status(self, old: Any, status: dict[str, Any], **meta: Any) -> tuple[Any, list[str]]:
        view = self._behavior.view("status")
        assert view is not None
        value = {**codec.to_value(old), "status": status}
        value["metadata"] = {**value["metadata"], **meta}
        return self._change(view, old, codec.from_value(value, self._kind))

    def warnings(self, spec: dict[str, Any] | None = None, old: Any = None, **meta: Any) -> list[str]:
        obj = self.create(spec, **meta) if old is None else self.update(old, spec, **meta)[0]
        return list(self._strategy.warnings(self._ctx, obj, old))

    def cells(self, obj: Any, now: float = NOW) -> list[Any]:
        return [column.value(obj, now) for column in self._strategy.columns]

    def _read(self, spec: dict[str, Any] | None, meta: dict[str, Any]) -> Any:
        content = {"metadata": {"name": "a", "namespace": "ns", **meta}, "spec": {**self._spec, **(spec or {})}}
        obj = codec.from_value(content, self._kind)
        self._strategy.default(obj)
        self._gated_fields.default(obj)
        return obj

    def _change(self, strategy: Strategy, old: Any, obj: Any) -> tuple[Any, list[str]]:
        meta = obj.metadata
        meta.uid, meta.generation = old.metadata.uid, old.metadata.generation
        strategy.prepare_for_update(self._ctx, obj, old)
        self._gated_fields.drop(obj, old, subresource="" if strategy is self._strategy else "status")
        metadata.keep_system_fields(meta, old.metadata)
        if strategy.counts_generation and strategy.spec_of(obj) != strategy.spec_of(old):
            meta.generation = old.metadata.generation + 1
        own = list(strategy.validate_update(self._ctx, obj, old))
        options = strategy.declarative_options(self._ctx, old)
        return obj, [str(fault) for fault in complete_errors(own, obj, old, options)]
