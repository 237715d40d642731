"""Random pods of the right types do not make validation raise exceptions, and valid pods are accepted and stay
unchanged."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.codec import json as codec
from sampan.api.feature_gates import FeatureGates
from sampan.api.schema import schemas
from sampan.api.scheme import builtin_scheme
from sampan.api.types.core_v1 import Pod, PodSpec, PodStatus
from sampan.apiserver.registry.kinds.pods.strategy import PodStatusStrategy, PodStrategy
from sampan.apiserver.registry.podspec.pod_resize import keep_all_but_resources, validate_pod_resize
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.request.call import UserInfo
from tests.api.schema_values import values
from tests.apiserver.pods import CONTAINER

SPEC, STATUS = schemas.schema_of(PodSpec), schemas.schema_of(PodStatus)
REGISTRY: Any = SimpleNamespace(scheme=builtin_scheme(), feature_gates=FeatureGates())
CTX = Context(services=REGISTRY, user=UserInfo("u"), now="2026-01-01T00:00:00Z", namespace="default")
STRATEGY, STATUS_STRATEGY = PodStrategy(), PodStatusStrategy()

LABELS = st.dictionaries(st.sampled_from(["a", "b.io/c"]), st.sampled_from(["", "x", "1"]), max_size=2)
NAMES = st.sampled_from(["c", "d", "e"])
AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["1", "2", "1500m"]),
        "memory": st.sampled_from(["1", "2", "1500m"]),
        "x.io/g": st.sampled_from(["1", "2"]),
    },
)
VALID_CONTAINERS = st.fixed_dictionaries(
    {"name": NAMES, "image": st.sampled_from(["nginx", "nginx:1", "x.io/y:z"])},
    optional={
        "ports": st.lists(st.fixed_dictionaries({"containerPort": st.integers(1, 65535)}), max_size=2),
        "env": st.lists(st.fixed_dictionaries({"name": st.just("A"), "value": st.text(max_size=3)}), max_size=2),
        "resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS}),
        "livenessProbe": st.just({"httpGet": {"port": 80}}),
        "volumeMounts": st.just([{"name": "v", "mountPath": "/v"}]),
    },
)
VALID_SPECS = st.fixed_dictionaries(
    {
        "containers": st.lists(VALID_CONTAINERS, min_size=1, max_size=3, unique_by=lambda container: container["name"]),
        "volumes": st.sampled_from([[{"name": "v"}], [{"name": "v", "secret": {"secretName": "s"}}]]),
    },
    optional={
        "nodeSelector": LABELS,
        "terminationGracePeriodSeconds": st.integers(-1, 60),
        "tolerations": st.just([{"operator": "Exists"}]),
        "restartPolicy": st.sampled_from(["Always", "OnFailure", "Never"]),
        "affinity": st.just(
            {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["a"]}
                    ]
                }
            }
        ),
    },
)


def pod_with(spec: dict[str, Any], labels: dict[str, str] | None = None) -> Pod:
    meta = {"name": "a", "namespace": "default", "labels": labels or {}}
    return codec.from_value({"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec}, Pod)


def create(pod: Pod) -> list[str]:
    STRATEGY.default(pod)
    STRATEGY.prepare_for_create(CTX, pod)
    list(STRATEGY.warnings(CTX, pod, None))
    return [str(fault) for fault in STRATEGY.validate_create(CTX, pod)]


def update(pod: Pod, old: Pod) -> list[str]:
    STRATEGY.default(pod)
    STRATEGY.prepare_for_update(CTX, pod, old)
    return [str(fault) for fault in STRATEGY.validate_update(CTX, pod, old)]


@settings(max_examples=150)
@given(values(SPEC), values(SPEC))
def test_random_specs_do_not_crash_validation(spec: dict[str, Any], other: dict[str, Any]) -> None:
    pod = pod_with(spec)
    create(pod)
    update(pod_with(other), pod)
    resized = pod_with(other)
    keep_all_but_resources(resized, pod)
    list(validate_pod_resize(resized, pod, PodValidationOptions(pod.spec, {}, is_pod=True)))


@settings(max_examples=100)
@given(values(SPEC), st.lists(values(SPEC.properties["containers"].items), max_size=2))  # type: ignore[arg-type]
def test_random_containers_do_not_crash_validation(spec: dict[str, Any], containers: list[dict[str, Any]]) -> None:
    spec = {**spec, "containers": [CONTAINER, *containers], "initContainers": containers}
    create(pod_with(spec))


@settings(max_examples=100)
@given(values(STATUS), values(STATUS))
def test_random_statuses_do_not_crash_validation(status: dict[str, Any], other: dict[str, Any]) -> None:
    old = pod_with({"containers": [CONTAINER]})
    create(old)
    for value in (status, other):
        new = deepcopy(old)
        new.status = codec.from_value(value, PodStatus)
        STATUS_STRATEGY.default(new)
        STATUS_STRATEGY.prepare_for_update(CTX, new, old)
        list(STATUS_STRATEGY.validate_update(CTX, new, old))
        list(STATUS_STRATEGY.warnings(CTX, new, old))
        old = new


@settings(max_examples=150)
@given(VALID_SPECS, LABELS)
def test_valid_pod_is_accepted_and_unchanged_by_a_second_put(spec: dict[str, Any], labels: dict[str, str]) -> None:
    pod = pod_with(spec, labels)
    assert create(pod) == []
    again = codec.read(codec.encode(pod), Pod)
    assert update(again, pod) == []
    assert msgspec.to_builtins(again) == msgspec.to_builtins(pod)
