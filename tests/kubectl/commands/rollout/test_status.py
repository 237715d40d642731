"""The status of a rollout as text."""

from __future__ import annotations

from typing import Any

import pytest

from sampan.kubectl.commands.rollout.status import (
    daemon_set_status,
    deployment_status,
    stateful_set_status,
    status_function,
)
from sampan.machinery.cli_errors import CliError

ROLLING = {"type": "RollingUpdate"}


def workload(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "w", "generation": 2},
        "spec": spec,
        "status": {"observedGeneration": 2, **status},
    }


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"observedGeneration": 1}, "Waiting for deployment spec update to be observed..."),
        (
            {"updatedReplicas": 1},
            'Waiting for deployment "w" rollout to finish: 1 out of 3 new replicas have been updated...',
        ),
        (
            {"updatedReplicas": 3, "replicas": 4},
            'Waiting for deployment "w" rollout to finish: 1 old replicas are pending termination...',
        ),
        (
            {"updatedReplicas": 3, "replicas": 3, "availableReplicas": 2},
            'Waiting for deployment "w" rollout to finish: 2 of 3 updated replicas are available...',
        ),
        (
            {"updatedReplicas": 3, "replicas": 3, "availableReplicas": 3},
            'deployment "w" successfully rolled out',
        ),
    ],
)
def test_deployment(status: dict[str, Any], text: str) -> None:
    result, is_done = deployment_status(workload({"replicas": 3}, **status))
    assert result == text
    assert is_done == text.startswith("deployment")


def test_deployment_errors() -> None:
    late = workload({"replicas": 1}, conditions=[{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}])
    with pytest.raises(CliError, match='deployment "w" exceeded its progress deadline'):
        deployment_status(late)
    with pytest.raises(CliError, match=r"desired revision \(3\) is different from the running revision \(0\)"):
        deployment_status(late, 3)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            {"desiredNumberScheduled": 2, "updatedNumberScheduled": 1},
            'Waiting for daemon set "w" rollout to finish: 1 out of 2 new pods have been updated...',
        ),
        (
            {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1},
            'Waiting for daemon set "w" rollout to finish: 1 of 2 updated pods are available...',
        ),
        ({}, 'daemon set "w" successfully rolled out'),
    ],
)
def test_daemon_set(status: dict[str, Any], text: str) -> None:
    assert daemon_set_status(workload({"updateStrategy": ROLLING}, **status))[0] == text


@pytest.mark.parametrize(
    ("strategy", "status", "text"),
    [
        (ROLLING, {"readyReplicas": 1}, "Waiting for 2 pods to be ready..."),
        (
            ROLLING | {"rollingUpdate": {"partition": 1}},
            {"readyReplicas": 3, "updatedReplicas": 1},
            "Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated...",
        ),
        (
            ROLLING | {"rollingUpdate": {"partition": 0}},
            {"readyReplicas": 3, "updatedReplicas": 3},
            "partitioned roll out complete: 3 new pods have been updated...",
        ),
        (
            ROLLING,
            {"readyReplicas": 3, "updateRevision": "b", "currentRevision": "a", "updatedReplicas": 1},
            "waiting for statefulset rolling update to complete 1 pods at revision b...",
        ),
    ],
)
def test_stateful_set(strategy: dict[str, Any], status: dict[str, Any], text: str) -> None:
    assert stateful_set_status(workload({"replicas": 3, "updateStrategy": strategy}, **status))[0] == text


def test_other_strategies_and_kinds_have_no_status() -> None:
    with pytest.raises(CliError, match="rollout status is only available for RollingUpdate strategy type"):
        daemon_set_status(workload({"updateStrategy": {"type": "OnDelete"}}))
    with pytest.raises(CliError, match=r"no status viewer has been implemented for ReplicaSet.apps"):
        status_function("apps", "ReplicaSet")
