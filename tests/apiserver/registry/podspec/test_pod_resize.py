from copy import deepcopy
from typing import Any

import pytest

from sampan.api.semantics.pod_resources import qos_class
from sampan.api.types.core_v1 import Pod
from sampan.apiserver.registry.podspec.pod_resize import keep_all_but_resources, validate_pod_resize
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from tests.apiserver.pods import pod_with_defaults, spec_with_container

OLD_RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}


def resize_pod(old: Pod, resources: dict[str, Any], **more: Any) -> tuple[Pod, list[str]]:
    new = pod_with_defaults({**spec_with_container(resources=resources), **more})
    new.metadata, new.status = deepcopy(old.metadata), deepcopy(old.status)
    keep_all_but_resources(new, old)
    return new, [str(fault) for fault in validate_pod_resize(new, old, PodValidationOptions(old.spec, {}, is_pod=True))]


@pytest.fixture
def old() -> Pod:
    pod = pod_with_defaults(spec_with_container(resources=OLD_RESOURCES))
    pod.status.qosClass = qos_class(pod.spec)
    return pod


def test_resize_applies_cpu_and_memory_and_ignores_other_fields(old: Pod) -> None:
    resources = {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    new, faults = resize_pod(old, resources, restartPolicy="Never", nodeName="other")
    assert faults == []
    assert new.spec.containers is not None
    assert new.spec.containers[0].resources.limits == resources["limits"]
    assert (new.spec.restartPolicy, new.spec.nodeName) == ("Always", "")


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (
            {"limits": {**OLD_RESOURCES["limits"], "ephemeral-storage": "1Gi"}, "requests": OLD_RESOURCES["requests"]},
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            {"limits": {"cpu": "1"}, "requests": OLD_RESOURCES["requests"]},
            ["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"],
        ),
        (
            {"limits": OLD_RESOURCES["limits"], "requests": OLD_RESOURCES["limits"]},
            ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'],
        ),
    ],
)
def test_invalid_resource_changes_are_rejected(old: Pod, resources: dict[str, Any], expected: list[str]) -> None:
    assert resize_pod(old, resources)[1] == expected


def test_containers_cannot_be_renamed_or_reordered(old: Pod) -> None:
    new = pod_with_defaults({"containers": [{"name": "d", "image": "x", "resources": OLD_RESOURCES}]})
    new.status = deepcopy(old.status)
    keep_all_but_resources(new, old)
    assert [str(fault) for fault in validate_pod_resize(new, old, PodValidationOptions(old.spec, {}, is_pod=True))] == [
        "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
    ]


def test_pod_level_resources_can_be_resized_but_not_removed() -> None:
    old = pod_with_defaults({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})
    old.status.qosClass = qos_class(old.spec)
    new = deepcopy(old)
    assert new.spec.resources is not None
    new.spec.resources.limits["cpu"] = new.spec.resources.requests["cpu"] = "2"
    options = PodValidationOptions(old.spec, {}, is_pod=True)
    assert list(validate_pod_resize(new, old, options)) == []
    new.spec.resources = None
    assert [str(fault) for fault in validate_pod_resize(new, old, options)] == [
        'spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing',
        "spec.resources: Forbidden: pod-level resources cannot be removed",
    ]


@pytest.mark.parametrize(
    ("spec", "annotations", "text"),
    [
        ({"nodeName": "n"}, {"kubernetes.io/config.mirror": "x"}, "static pods cannot be resized"),
        ({"os": {"name": "windows"}}, {}, "windows pods cannot be resized"),
    ],
)
def test_static_and_windows_pods_cannot_be_resized(
    spec: dict[str, Any], annotations: dict[str, str], text: str
) -> None:
    old = pod_with_defaults(spec, annotations=annotations)
    errors = [
        str(fault) for fault in validate_pod_resize(deepcopy(old), old, PodValidationOptions(old.spec, {}, is_pod=True))
    ]
    assert errors == [f"[]: Forbidden: {text}"]
