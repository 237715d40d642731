from copy import deepcopy
from typing import Any

import msgspec
import pytest

from sampan.api.semantics.conditions import is_true
from sampan.api.semantics.pods import set_pod_condition
from sampan.api.types.core_v1 import Pod, PodStatus
from sampan.apiserver.registry.podspec.pod_status import validate_pod_status_update
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from tests.apiserver.pods import CONTAINER, pod_with_defaults

TERMINATED = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
RUNNING: dict[str, Any] = {"name": "c", "state": {"running": {}}}


def faults(old: Pod, **status: Any) -> list[str]:
    new = deepcopy(old)
    new.status = msgspec.convert({"qosClass": old.status.qosClass, **status}, PodStatus)
    return [
        str(fault) for fault in validate_pod_status_update(new, old, PodValidationOptions(old.spec, {}, is_pod=True))
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, []),
        ({"qosClass": "Guaranteed"}, ['status.qosClass: Invalid value: "Guaranteed": field is immutable']),
        (
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]},
            [
                'status.podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: may specify no more than one '
                "IP for "
                "each IP family"
            ],
        ),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, []),
        (
            {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]},
            ['status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`'],
        ),
        (
            {"resourceClaimStatuses": [{"name": "x"}]},
            [
                'status.resourceClaimStatuses[0].name: Invalid value: "x": must match the name of an entry in '
                "`spec.resourceClaims`"
            ],
        ),
        (
            {"containerStatuses": [{**RUNNING, "user": {"linux": {"uid": -1, "gid": 0}}}]},
            [
                "status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 4294967295, "
                "inclusive"
            ],
        ),
        (
            {"containerStatuses": [{**RUNNING, "allocatedResourcesStatus": [{"name": "x.io/g", "resources": []}]}]},
            [
                'status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "x.io/g": must match '
                "one of "
                "the container's resource requests"
            ],
        ),
    ],
)
def test_errors(status: dict[str, Any], expected: list[str]) -> None:
    assert faults(pod_with_defaults(), **status) == expected


@pytest.mark.parametrize(
    ("spec", "may_restart"),
    [
        ({"restartPolicy": "Always"}, True),
        ({"restartPolicy": "OnFailure"}, True),
        ({"restartPolicy": "Never"}, False),
        ({"restartPolicy": "Never", "containers": [{**CONTAINER, "restartPolicy": "Always"}]}, True),
        (
            {
                "restartPolicy": "Never",
                "containers": [
                    {
                        **CONTAINER,
                        "restartPolicy": "Never",
                        "restartPolicyRules": [
                            {"action": "Restart", "exitCodes": {"operator": "In", "values": [1, 2]}}
                        ],
                    }
                ],
            },
            True,
        ),
    ],
)
def test_terminated_container_may_restart_only_if_restart_policy_allows(
    spec: dict[str, Any], may_restart: bool
) -> None:
    old = pod_with_defaults(spec)
    old.status = msgspec.convert({"containerStatuses": [TERMINATED]}, PodStatus)
    errors = faults(old, containerStatuses=[RUNNING])
    text = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    assert errors == ([] if may_restart else [text])
    assert faults(old, containerStatuses=[TERMINATED]) == []


def test_nominated_node_name_is_forbidden_on_bound_pod() -> None:
    errors = faults(pod_with_defaults({"nodeName": "n"}), nominatedNodeName="m")
    assert errors == ["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"]


def test_transition_time_of_condition_changes_only_with_its_status() -> None:
    status = PodStatus()
    set_pod_condition(status, "Ready", "False", now="2026-01-01T00:00:00Z")
    set_pod_condition(status, "Ready", "False", now="2026-01-02T00:00:00Z", reason="Still")
    assert [(c.lastTransitionTime, c.reason) for c in status.conditions] == [("2026-01-01T00:00:00Z", "Still")]
    set_pod_condition(status, "Ready", "True", now="2026-01-03T00:00:00Z")
    assert is_true(status.conditions, "Ready")
    assert status.conditions[0].lastTransitionTime == "2026-01-03T00:00:00Z"
