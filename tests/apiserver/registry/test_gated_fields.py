"""Every row of the tables of gated fields, with the gate on and off, in every kind that has the field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from sampan.api.feature_gates import LEVELS, FeatureGateError, FeatureGates
from sampan.api.scheme import builtin_scheme, type_for
from sampan.api.types.apps_v1 import StatefulSet
from sampan.api.types.core_v1 import Container, EnvVar, Lifecycle, LifecycleHandler, Pod, PodSpec
from sampan.apiserver.registry.gated_fields import GATED_DEFAULTS, GATED_FEATURES, GatedFeature, GatedFields

Path = tuple[str, ...]


def _stored_types() -> list[type[msgspec.Struct]]:
    gates = FeatureGates({"AllAlpha": True, "AllBeta": True})
    stored = {resource.storage for resource in builtin_scheme({"api/all": True}, gates)}
    types = (type_for(kind) for kind in stored if kind is not None)
    return sorted((kind for kind in types if kind is not None), key=lambda kind: (kind.__module__, kind.__name__))


def _struct_of(annotation: Any) -> type[Any] | None:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return next((kind for part in get_args(annotation) if (kind := _struct_of(part)) is not None), None)


def _paths(kind: type[Any], struct: str, owners: tuple[type[Any], ...] = ()) -> Iterator[Path]:
    """Yield the paths to a struct in a type."""
    if f"{kind.__module__.rpartition('.')[2].rpartition('_')[0]}.{kind.__name__}" == struct:
        yield ()
    for info in msgspec.structs.fields(kind):
        child = _struct_of(info.type)
        if child is not None and child is not kind and child not in owners:
            for path in _paths(child, struct, (*owners, kind)):
                yield (info.name, *path)


def _sample(annotation: Any) -> Any:
    """Return a value that is not the default of a field of that type."""
    text = str(annotation)
    if (kind := _struct_of(annotation)) is not None:
        value: Any = kind()
        return [value] if text.startswith("list") else {"k": value} if text.startswith("dict") else value
    if text.startswith(("list", "dict")):
        return ["x"] if text.startswith("list") else {"x": "1"}
    return True if "bool" in text.lower() else 3 if "int" in text and "str" not in text else "x"


def _place(struct: Any, path: Path, *, in_use: bool = True) -> Any:
    """Set a field of a struct to a value, and the structs on the path to it to new ones, and return the last struct."""
    for name in path[:-1]:
        info = next(info for info in msgspec.structs.fields(type(struct)) if info.name == name)
        kind = _struct_of(info.type)
        assert kind is not None
        child, text = kind(), str(info.type)
        setattr(struct, name, [child] if text.startswith("list") else {"k": child} if "dict" in text[:5] else child)
        struct = child
    info = next(info for info in msgspec.structs.fields(type(struct)) if info.name == path[-1])
    if in_use:
        setattr(struct, path[-1], _sample(info.type))
    return struct


def _gates(name: str, value: bool) -> FeatureGates:
    """Return gates of any level with a value for one gate; the others must not depend on it."""
    for level in reversed(LEVELS):
        try:
            return FeatureGates({"AllAlpha": value, "AllBeta": value, name: value}, level=level)
        except FeatureGateError:
            continue
    raise AssertionError(f"{name} cannot be set to {value} at any level")


ROWS = [(feature, path) for feature in GATED_FEATURES for path in feature.fields]
STORED_TYPES = _stored_types()


def _fields_of(path: str) -> list[tuple[type[msgspec.Struct], Path]]:
    group, struct, *fields = path.split(".")
    return [(kind, (*place, *fields)) for kind in STORED_TYPES for place in _paths(kind, f"{group}.{struct}")]


@pytest.mark.parametrize(("feature", "path"), ROWS, ids=[path for _, path in ROWS])
def test_field_is_kept_if_its_gate_is_on_or_the_old_object_uses_its_feature(feature: GatedFeature, path: str) -> None:
    on, off = (GatedFields(_gates(feature.gate, value)) for value in (True, False))
    places = _fields_of(path)
    assert places, "no kind has the field"
    for kind, place in places:
        new, old = kind(), kind()
        struct, before = _place(new, place), _place(old, place, in_use=False)
        subresource = "status" if place[0] == "status" else ""
        value = getattr(struct, place[-1])
        unset = getattr(type(struct)(), place[-1])

        on.drop(new, None)
        on.drop(new, old, subresource=subresource)
        assert getattr(struct, place[-1]) == value, "dropped although the gate is on"

        setattr(before, place[-1], value)
        off.drop(new, old, subresource=subresource)
        assert getattr(struct, place[-1]) == value, "dropped although the old object has it"

        setattr(before, place[-1], unset)
        off.drop(new, old, subresource=subresource)
        assert getattr(struct, place[-1]) == unset, "kept although the gate is off"

        new = kind()
        struct = _place(new, place)
        off.drop(new, None)
        assert getattr(struct, place[-1]) == unset, "kept in a new object although the gate is off"


@pytest.mark.parametrize(("gate", "path", "default"), GATED_DEFAULTS, ids=[path for _, path, _ in GATED_DEFAULTS])
def test_field_has_a_default_if_its_gate_is_on(gate: str, path: str, default: Any) -> None:
    on, off = (GatedFields(_gates(gate, value)) for value in (True, False))
    for kind, place in _fields_of(path):
        obj = kind()
        struct = _place(obj, place, in_use=False)
        if isinstance(obj, StatefulSet):
            obj.spec.updateStrategy.type = "RollingUpdate"
        off.default(obj)
        assert getattr(struct, place[-1]) is None
        on.default(obj)
        assert getattr(struct, place[-1]) == default
        setattr(struct, place[-1], value := _sample(type(default)))
        on.default(obj)
        assert getattr(struct, place[-1]) == value


def test_fields_of_a_feature_are_in_use_together() -> None:
    gates = FeatureGates({"ContainerRestartRules": False}, level=35)
    old = Pod(spec=PodSpec(containers=[Container(name="a", restartPolicy="Never")]))
    new = Pod(spec=PodSpec(containers=[Container(name="a"), Container(name="b", restartPolicy="Always")]))
    GatedFields(gates).drop(new, old)
    assert [container.restartPolicy for container in new.spec.containers or ()] == [None, "Always"]


def test_lifecycle_is_dropped_with_its_last_field() -> None:
    containers = [
        Container(name="a", lifecycle=Lifecycle(stopSignal="SIGUSR1")),
        Container(name="b", lifecycle=Lifecycle(stopSignal="SIGUSR1", preStop=LifecycleHandler())),
    ]
    GatedFields(FeatureGates({"ContainerStopSignals": False})).drop(Pod(spec=PodSpec(containers=containers)), None)
    assert [container.lifecycle for container in containers] == [None, Lifecycle(preStop=LifecycleHandler())]


def test_objects_without_gated_fields_are_left_alone() -> None:
    pod = Pod(spec=PodSpec(containers=[Container(name="a", env=[EnvVar(name="x")])]))
    before = msgspec.json.encode(pod)
    gated_fields = GatedFields(FeatureGates())
    gated_fields.default(pod)
    gated_fields.drop(pod, None)
    assert msgspec.json.encode(pod) == before
