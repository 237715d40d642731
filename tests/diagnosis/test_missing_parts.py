"""Reasons why a pod is not ready, from its status, events and claims."""

from typing import Any

import pytest

from sampan.diagnosis.missing_parts import list_missing_parts, state_of


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a"}, "status": status}


def test_reasons_why_a_pod_is_not_ready() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling"}}
    assert list_missing_parts(pod(phase="Pending", containerStatuses=[{"name": "c", "state": waiting}])) == [
        "container c: ImagePullBackOff: Back-off pulling"
    ]
    terminated = {"terminated": {"exitCode": 3, "reason": "Error"}}
    assert list_missing_parts(pod(initContainerStatuses=[{"name": "i", "state": terminated, "restartCount": 2}])) == [
        "init container i: exited with code 3 (Error), restarted 2 times"
    ]
    running = pod(phase="Running", containerStatuses=[{"name": "c", "state": {"running": {}}, "ready": False}])
    assert (state_of(running), list_missing_parts(running)) == (
        "Running, not ready",
        ["container c: running, but not ready"],
    )
    claim = {"metadata": {"name": "data"}, "status": {"phase": "Pending"}}
    assert list_missing_parts(pod(phase="Pending"), claims=[claim]) == ["claim data: Pending, not bound to a volume"]
    events = [
        {"type": "Warning", "reason": "FailedMount", "message": "old"},
        {"type": "Normal", "reason": "Pulled", "message": "fine"},
        {"type": "Warning", "reason": "FailedMount", "message": "new"},
        {"type": "Warning", "reason": "FailedScheduling", "message": "shown elsewhere"},
    ]
    assert list_missing_parts(pod(phase="Pending"), events) == ["FailedMount: new"]
    gated = pod(phase="Running")
    gated["spec"]["readinessGates"] = [{"conditionType": "x/y"}]
    assert list_missing_parts(gated) == ["readiness gate x/y: not set"]
    terminating = pod(phase="Running")
    terminating["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
    assert (state_of(terminating), list_missing_parts(terminating)) == (
        "Terminating",
        ["it is terminating: grace period until 2026-01-01T00:00:00Z; held by the finalizers a/b"],
    )


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        (["Pulling"], ', pulling image "nginx" since 2026-01-01T00:00:00Z'),
        (["Pulled", "Pulling"], ', pulling image "nginx" since 2026-01-01T00:00:01Z'),
        (["Pulling", "Pulled"], ""),
        (["Pulling", "Failed"], ""),
        ([], ""),
    ],
)
def test_image_pull_in_progress_is_shown(reasons: list[str], text: str) -> None:
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    events = [
        {
            "type": "Normal",
            "reason": reason,
            "message": 'Pulling image "nginx"',
            "involvedObject": {"fieldPath": f"spec.containers{{{name}}}"},
            "lastTimestamp": f"2026-01-01T00:00:{second:02}Z",
        }
        for second, reason in enumerate(reasons)
        for name in ("c", "other")
    ]
    assert list_missing_parts(pod(phase="Pending", containerStatuses=[{"name": "c", "state": waiting}]), events) == [
        f"container c: ContainerCreating{text}"
    ]
