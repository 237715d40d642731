"""Roles and role bindings: rules that the golden replay does not cover."""

from typing import Any

import pytest

from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.validation_errors import errors_of_new, named_object

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, CLUSTER_ROLES = f"{RBAC}/namespaces/ns/roles", f"{RBAC}/clusterroles"
BINDINGS, CLUSTER_BINDINGS = f"{RBAC}/namespaces/ns/rolebindings", f"{RBAC}/clusterrolebindings"
GROUP = "rbac.authorization.k8s.io"


def binding(*subjects: dict[str, Any], kind: str = "ClusterRole") -> dict[str, Any]:
    return named_object(roleRef={"kind": kind, "name": "r"}, subjects=list(subjects))


@pytest.mark.parametrize(
    ("path", "value", "faults"),
    [
        (
            CLUSTER_ROLES,
            named_object(aggregationRule={}),
            [
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
                "aggregationRule is non-nil"
            ],
        ),
        (
            CLUSTER_ROLES,
            named_object(
                aggregationRule={"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Odd"}]}]}
            ),
            [
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "
                '"Odd": not a valid '
                "selector operator",
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ],
        ),
        (
            CLUSTER_BINDINGS,
            binding(kind="Role"),
            ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
        ),
        (
            CLUSTER_BINDINGS,
            binding(
                {"kind": "ServiceAccount", "name": "s", "apiGroup": GROUP},
                {"kind": "User", "name": "", "apiGroup": "x"},
                {"kind": "Odd", "name": "o"},
            ),
            [
                f'subjects[0].apiGroup: Unsupported value: "{GROUP}": supported values: ""',
                "subjects[0].namespace: Required value",
                f'subjects[1].apiGroup: Unsupported value: "x": supported values: "{GROUP}"',
                'subjects[2].kind: Unsupported value: "Odd": supported values: "ServiceAccount", "User", "Group"',
                "subjects[1].name: Required value",
            ],
        ),
        (BINDINGS, binding({"kind": "ServiceAccount", "name": "s"}, kind="Role"), []),
    ],
)
def test_errors_of_new_objects(path: str, value: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_new(path, value) == faults


@pytest.mark.parametrize("path", [ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS])
def test_put_creates_missing_role_or_binding(path: str) -> None:
    async def work(cluster: Cluster) -> None:
        value = named_object() if path.endswith("roles") else binding()
        assert (await cluster.send("PUT", f"{path}/a", value)).code == 201
        assert (await cluster.send("PUT", f"{path}/a", value)).code == 200

    run_in_cluster(work)


def test_table_shows_subjects_of_binding() -> None:
    async def work(cluster: Cluster) -> None:
        subjects = [{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"}]
        account = {"kind": "ServiceAccount", "name": "s", "namespace": "ns"}
        await cluster.make(BINDINGS, binding(*subjects, account))
        cells = (await cluster.get_cells(BINDINGS))[0]
        assert (cells[:2], cells[3:]) == (["a", "ClusterRole/r"], ["u, v", "g", "ns/s"])

    run_in_cluster(work)
