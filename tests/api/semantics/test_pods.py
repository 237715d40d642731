"""Containers, grace periods, phases and readiness of pods."""

from typing import Any

import msgspec
import pytest

from sampan.api.semantics import pods
from sampan.api.semantics.conditions import find_condition
from sampan.api.types.core_v1 import Container, EphemeralContainer, Pod, PodSpec, PodStatus
from tests.controllers.ownership.objects import NOW, pod

DELETED: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SPEC = msgspec.convert(
    {
        "initContainers": [{"name": "init"}, {"name": "proxy", "restartPolicy": "Always"}],
        "containers": [{"name": "app"}, {"name": "log"}],
        "ephemeralContainers": [{"name": "debug", "image": "busybox", "targetContainerName": "app"}],
    },
    PodSpec,
)


def names(containers: list[Any]) -> list[str]:
    return [container.name for container in containers]


def test_containers_of_a_pod() -> None:
    assert names(pods.all_containers(SPEC)) == ["init", "proxy", "app", "log", "debug"]
    assert names(pods.init_and_main_containers(SPEC)) == ["init", "proxy", "app", "log"]
    assert names(pods.sidecars_of(SPEC)) == ["proxy"]
    assert names(pods.long_running_containers(SPEC)) == ["app", "log", "proxy"]
    assert [(field, index) for field, _, index in pods.containers_by_field(SPEC)] == [
        ("initContainers", 0),
        ("initContainers", 1),
        ("containers", 0),
        ("containers", 1),
        ("ephemeralContainers", 0),
    ]
    assert pods.all_containers(PodSpec(containers=None)) == []


@pytest.mark.parametrize("name", ["init", "app", "debug"])
def test_find_container(name: str) -> None:
    container = pods.find_container(SPEC, name)
    assert container is not None
    assert container.name == name
    assert pods.find_container(SPEC, "absent") is None


def test_ephemeral_container_as_container() -> None:
    ephemeral = EphemeralContainer(name="debug", image="busybox", tty=True, targetContainerName="app")
    assert pods.as_container(ephemeral) == Container(name="debug", image="busybox", tty=True)
    container = Container(name="app")
    assert pods.as_container(container) is container


@pytest.mark.parametrize(
    ("spec_s", "deletion_s", "grace_s"),
    [(None, None, 30.0), (5, None, 5.0), (0, None, 0.0), (5, 2, 2.0), (5, 0, 0.0)],
)
def test_grace_period(spec_s: int | None, deletion_s: int | None, grace_s: float) -> None:
    terminating = Pod(spec=PodSpec(terminationGracePeriodSeconds=spec_s))
    terminating.metadata.deletionGracePeriodSeconds = deletion_s
    assert pods.termination_grace_period_s(terminating) == grace_s


@pytest.mark.parametrize(
    ("phase", "is_deleted", "is_active", "is_terminating"),
    [
        ("Pending", False, True, False),
        ("Running", False, True, False),
        ("Running", True, False, True),
        ("Succeeded", False, False, False),
        ("Failed", True, False, False),
    ],
)
def test_is_active_and_is_terminating(phase: str, is_deleted: bool, is_active: bool, is_terminating: bool) -> None:
    subject = pod("a", phase=phase, **(DELETED if is_deleted else {}))
    assert (pods.is_active(subject), pods.is_terminating(subject)) == (is_active, is_terminating)


@pytest.mark.parametrize(
    ("ready_for_s", "min_s", "is_available", "in_s"),
    [
        (None, 0, False, None),
        (0, 0, True, None),
        (None, 5, False, None),
        (4, 5, False, 1.0),
        (5, 5, True, None),
        (9, 5, True, None),
    ],
)
def test_available_after_min_ready_seconds(
    ready_for_s: float | None, min_s: int, is_available: bool, in_s: float | None
) -> None:
    subject = pod("a", ready_for_s=ready_for_s)
    assert pods.is_available(subject, min_s, NOW) is is_available
    assert pods.available_in_s(subject, min_s, NOW) == in_s


def test_set_pod_condition_keeps_the_time_of_the_last_transition() -> None:
    status = PodStatus()
    pods.set_pod_condition(status, "Ready", "False", now="2026-01-01T00:00:00Z")
    pods.set_pod_condition(status, "Ready", "False", now="2026-01-02T00:00:00Z", reason="Again")
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.lastTransitionTime, ready.reason) == ("2026-01-01T00:00:00Z", "Again")
    pods.set_pod_condition(status, "Ready", "True", now="2026-01-03T00:00:00Z")
    assert [condition.lastTransitionTime for condition in status.conditions] == ["2026-01-03T00:00:00Z"]
