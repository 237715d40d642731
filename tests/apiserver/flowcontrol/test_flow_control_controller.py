"""Classification of requests by the default FlowSchemas, and division of seats by shares."""

import msgspec
import pytest

from sampan.api.types.flowcontrol_v1 import FlowSchema, PriorityLevelConfiguration
from sampan.apiserver.authz.authorizer import Attributes
from sampan.apiserver.flowcontrol.fairness import Fairness, FlowSchemaMatcher
from sampan.apiserver.flowcontrol.flow_control_controller import LEVELS, SCHEMAS
from sampan.apiserver.request.call import UserInfo

ANY = ("system:authenticated",)
NODE = UserInfo("system:node:n", groups=("system:nodes", *ANY))
CONTROLLER_MANAGER = UserInfo("system:kube-controller-manager", groups=ANY)
ACCOUNT = UserInfo("system:serviceaccount:ns:a", groups=("system:serviceaccounts", "system:serviceaccounts:ns", *ANY))
SYSTEM_ACCOUNT = UserInfo("system:serviceaccount:kube-system:a", groups=("system:serviceaccounts", *ANY))
ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
DEFAULTS = FlowSchemaMatcher([msgspec.convert(schema, FlowSchema) for schema in SCHEMAS])


def pods(user: UserInfo, verb: str = "get") -> Attributes:
    return Attributes(user, verb, version="v1", resource="pods", namespace="ns", name="a")


def lease(user: UserInfo, verb: str = "update") -> Attributes:
    return Attributes(user, verb, group="coordination.k8s.io", version="v1", resource="leases", namespace="kube-system")


@pytest.mark.parametrize(
    ("attributes", "schema", "level", "distinguisher"),
    [
        (pods(UserInfo("root", groups=("system:masters", *ANY))), "exempt", "exempt", ""),
        (Attributes(ANONYMOUS, "get", "/livez", is_resource=False), "probes", "exempt", ""),
        (
            Attributes(ANONYMOUS, "get", "/version", is_resource=False),
            "global-default",
            "global-default",
            ANONYMOUS.name,
        ),
        (lease(CONTROLLER_MANAGER), "system-leader-election", "leader-election", CONTROLLER_MANAGER.name),
        (lease(CONTROLLER_MANAGER, "list"), "kube-controller-manager", "workload-high", "kube-system"),
        (lease(SYSTEM_ACCOUNT), "system-leader-election", "leader-election", SYSTEM_ACCOUNT.name),
        (lease(ACCOUNT), "service-accounts", "workload-low", ACCOUNT.name),
        (lease(NODE), "system-node-high", "node-high", NODE.name),
        (Attributes(NODE, "patch", resource="nodes", subresource="status"), "system-node-high", "node-high", NODE.name),
        (pods(NODE), "system-nodes", "system", NODE.name),
        (pods(CONTROLLER_MANAGER), "kube-controller-manager", "workload-high", "ns"),
        (pods(SYSTEM_ACCOUNT), "kube-system-service-accounts", "workload-high", "ns"),
        (pods(ACCOUNT), "service-accounts", "workload-low", ACCOUNT.name),
        (pods(UserInfo("may", groups=ANY)), "global-default", "global-default", "may"),
    ],
)
def test_default_flow_schemas_classify_requests(
    attributes: Attributes, schema: str, level: str, distinguisher: str
) -> None:
    flow = DEFAULTS.flow(attributes)
    assert flow is not None
    assert (flow.schema, flow.level, flow.key) == (schema, level, f"{schema}\0{distinguisher}")


def test_seats_are_divided_by_concurrency_shares() -> None:
    fairness = Fairness(seats=600)
    fairness.configure([], [msgspec.convert(level, PriorityLevelConfiguration) for level in LEVELS])
    assert {name: level.limits.seats for name, level in fairness.levels.items()} == {
        "catch-all": 13,
        "system": 74,
        "node-high": 98,
        "leader-election": 25,
        "workload-high": 98,
        "workload-low": 245,
        "global-default": 49,
    }
    assert fairness.levels["workload-low"].limits.hand == 6
    fairness.configure([], [])
    assert fairness.levels == {}
