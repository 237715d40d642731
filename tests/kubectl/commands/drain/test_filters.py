"""The filters that decide which pods a drain deletes."""

from __future__ import annotations

from typing import Any

import pytest

from sampan.kubectl.commands.drain.filters import PodFilters, filter_pods

OWNERS = {
    "DaemonSet": {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True},
    "ReplicaSet": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True},
}


def pod(name: str = "p", *, owner: str = "", empty_dir: bool = False, phase: str = "Running", **metadata: Any) -> Any:
    fields: dict[str, Any] = {"name": name, "namespace": "n", **metadata}
    if owner:
        fields["ownerReferences"] = [OWNERS[owner]]
    return {
        "metadata": fields,
        "spec": {"volumes": [{"name": "v", "emptyDir": {}}] if empty_dir else []},
        "status": {"phase": phase},
    }


LOCAL = "cannot delete Pods with local storage (use --delete-emptydir-data to override): n/p"
UNMANAGED = "cannot delete Pods that declare no controller (use --force to override): n/p"
DAEMON = "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): n/p"


@pytest.mark.parametrize(
    ("value", "options", "count", "warning", "errors"),
    [
        (pod(owner="ReplicaSet"), {}, 1, "", []),
        (pod(), {}, 0, "", [UNMANAGED]),
        (pod(), {"force": True}, 1, "deleting Pods that declare no controller: n/p", []),
        (pod(phase="Succeeded", empty_dir=True), {}, 1, "", []),
        (pod(owner="ReplicaSet", empty_dir=True), {}, 0, "", [LOCAL]),
        (pod(owner="ReplicaSet", empty_dir=True), {"delete_emptydir_data": True}, 1, "", []),
        (pod(owner="DaemonSet"), {}, 0, "", [DAEMON]),
        (pod(owner="DaemonSet"), {"ignore_daemonsets": True}, 0, "ignoring DaemonSet-managed Pods: n/p", []),
        (pod(annotations={"kubernetes.io/config.mirror": "x"}), {}, 0, "", []),
        (
            pod(deletionTimestamp="1970-01-01T00:00:00Z"),
            {"skip_wait_for_delete_timeout_s": 10},
            0,
            "",
            [],
        ),
    ],
)
def test_filters(value: Any, options: dict[str, Any], count: int, warning: str, errors: list[str]) -> None:
    result = filter_pods([value], PodFilters(**options), now=1000, daemon_set_error=lambda *_: None)
    assert (len(result.pods), result.warning_text, result.error_texts) == (count, warning, errors)


def test_pods_of_a_deleted_daemon_set_need_force() -> None:
    missing = ('daemonsets.apps "d" not found', True)
    pods = [pod(owner="DaemonSet"), pod("q", owner="DaemonSet")]
    refused = filter_pods(pods, PodFilters(), now=0, daemon_set_error=lambda *_: missing)
    assert refused.error_texts == ['cannot delete daemonsets.apps "d" not found: n/p, n/q']
    forced = filter_pods(pods, PodFilters(force=True), now=0, daemon_set_error=lambda *_: missing)
    assert len(forced.pods) == 2
