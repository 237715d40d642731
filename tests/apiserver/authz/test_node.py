"""What a node may do, by a table; the pods on it decide about the rest."""

from collections.abc import Awaitable
from typing import Any

import pytest

from sampan.apiserver.authz import Attributes, AuthzDecision, AuthzResult
from sampan.apiserver.authz.node import NodeAuthorizer, NodeGraph
from sampan.apiserver.request.call import UserInfo
from tests.apiserver.authz.rbac_objects import attributes_of
from tests.apiserver.in_process_server import Asking, asking, run

NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
OTHER = UserInfo("system:node:n2", groups=("system:nodes", "system:authenticated"))
PAUSE = {
    "name": "c",
    "image": "pause",
    "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "k"}}}],
}
SPEC: dict[str, Any] = {
    "nodeName": "n1",
    "serviceAccountName": "robot",
    "containers": [PAUSE],
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "s", "secret": {"secretName": "mounted"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
    ],
}


async def fill(asks: Asking) -> None:
    await asks.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    await asks.create("/api/v1/namespaces/ns/pods", {"metadata": {"name": "p1"}, "spec": SPEC})
    claim = {"accessModes": ["ReadWriteOnce"], "volumeName": "volume", "resources": {"requests": {"storage": "1Gi"}}}
    await asks.create(
        "/api/v1/namespaces/ns/persistentvolumeclaims",
        {"metadata": {"name": "claim"}, "spec": {**claim, "storageClassName": ""}},
    )
    secret = {"name": "driver", "namespace": "kube-system"}
    await asks.create(
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": "volume"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "d", "volumeHandle": "v", "nodePublishSecretRef": secret},
            },
        },
    )


async def _waited_for(decision: AuthzResult | Awaitable[AuthzResult]) -> AuthzResult:
    """The first question finds caches that are not filled, and waits."""
    return decision if isinstance(decision, AuthzResult) else await decision


def judged(*questions: Attributes) -> list[tuple[bool, str]]:
    async def work() -> list[tuple[bool, str]]:
        async with asking() as asks:
            await fill(asks)
            authorizer = NodeAuthorizer(relations=NodeGraph(registry=asks.registry))
            decisions = [await _waited_for(authorizer.authorize(question)) for question in questions]
            return [(decision.decision is AuthzDecision.ALLOW, decision.reason) for decision in decisions]

    return run(work())


def of_ns(verb: str, resource: str, name: str = "", user: UserInfo = NODE, **more: str) -> Attributes:
    return attributes_of(verb, resource, user, namespace="ns", name=name, **more)


def test_what_the_pods_of_a_node_use_is_open_to_it_and_to_no_other() -> None:
    used = [
        of_ns("get", "secrets", "mounted"),
        of_ns("watch", "secrets", "pull"),
        of_ns("get", "configmaps", "env"),
        of_ns("list", "configmaps", "projected"),
        of_ns("get", "persistentvolumeclaims", "claim"),
        of_ns("create", "serviceaccounts/token", "robot"),
        of_ns("get", "pods", "p1"),
        attributes_of("get", "persistentvolumes", NODE, name="volume"),
        attributes_of("get", "secrets", NODE, namespace="kube-system", name="driver"),
    ]
    assert [allowed for allowed, _ in judged(*used)] == [True] * len(used)
    others = [
        Attributes(user=OTHER, verb=attributes.verb, resource=attributes.resource, subresource=attributes.subresource)
        if not attributes.namespace
        else of_ns(attributes.verb, attributes.whole_resource, attributes.name, OTHER)
        for attributes in used
    ]
    assert not any(allowed for allowed, _ in judged(*others))


_NONE = "no relationship found between node 'n1' and this object"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (of_ns("get", "secrets", "unused"), (False, _NONE)),
        (of_ns("list", "secrets"), (False, "No Object name found")),
        (of_ns("update", "secrets", "mounted"), (False, "can only read resources of this type")),
        (attributes_of("get", "secrets", NODE, name="x"), (False, "can only read namespaced object of this type")),
        (of_ns("list", "persistentvolumeclaims"), (False, "can only get individual resources of this type")),
        (of_ns("create", "serviceaccounts/token", "admin"), (False, _NONE)),
        (of_ns("list", "pods"), (False, "can only list/watch pods with spec.nodeName field selector")),
        (attributes_of("list", "pods", NODE, field_selector="spec.nodeName=n1"), (True, "")),
        (
            attributes_of("list", "pods", NODE, field_selector="spec.nodeName!=n1"),
            (False, "can only list/watch pods with spec.nodeName field selector"),
        ),
        (of_ns("patch", "pods/status", "p1"), (True, "")),
        (of_ns("create", "pods/exec", "p1"), (False, "")),
        (attributes_of("get", "nodes", NODE, name="n1"), (True, "")),
        (
            attributes_of("get", "nodes", NODE, name="n2"),
            (False, "node 'n1' cannot read 'n2', only its own Node object"),
        ),
        (attributes_of("list", "nodes", NODE), (False, "node 'n1' cannot read all nodes, only its own Node object")),
        (attributes_of("delete", "nodes", NODE, name="n1"), (False, "")),
        (attributes_of("get", "services", NODE), (True, "")),
        (attributes_of("create", "events", NODE, namespace="ns"), (True, "")),
        (
            attributes_of(
                "update", "leases", NODE, group="coordination.k8s.io", namespace="kube-node-lease", name="n1"
            ),
            (True, ""),
        ),
        (
            attributes_of(
                "update", "leases", NODE, group="coordination.k8s.io", namespace="kube-node-lease", name="n2"
            ),
            (False, "can only access node lease with the same name as the requesting node"),
        ),
        (
            attributes_of("get", "leases", NODE, group="coordination.k8s.io", namespace="kube-system", name="n1"),
            (False, 'can only access leases in the "kube-node-lease" system namespace'),
        ),
        (attributes_of("get", "csinodes", NODE, group="storage.k8s.io", name="n1"), (True, "")),
        (attributes_of("get", "nodes", UserInfo("system:node:n1"), name="n1"), (False, "")),
        (attributes_of("get", "nodes", UserInfo("ann", groups=("system:nodes",)), name="n1"), (False, "")),
        (
            attributes_of("get", "nodes", UserInfo("system:node:", groups=("system:nodes",)), name="n1"),
            (False, 'unknown node for user "system:node:"'),
        ),
    ],
)
def test_a_node_may_access_what_its_pods_refer_to(question: Attributes, expected: tuple[bool, str]) -> None:
    assert judged(question) == [expected]
