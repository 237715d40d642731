"""The node authorizer: requests that every kubelet may send, and access to the objects that its pods use."""

from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.apiserver.authz import Attributes, AuthzDecision, AuthzResult
from sampan.apiserver.authz.node import NodeAuthorizer, NodeGraph
from sampan.apiserver.request.call import UserInfo
from tests.apiserver.authz.rbac_objects import attributes_of
from tests.apiserver.in_process_server import InProcessClient, in_process_client, run

NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
OTHER_NODE = UserInfo("system:node:n2", groups=("system:nodes", "system:authenticated"))
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


async def create_objects(client: InProcessClient) -> None:
    await client.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    await client.create("/api/v1/namespaces/ns/pods", {"metadata": {"name": "p1"}, "spec": SPEC})
    other_spec = {"nodeName": "n2", "containers": [{"name": "c", "image": "pause"}]}
    await client.create("/api/v1/namespaces/ns/pods", {"metadata": {"name": "p2"}, "spec": other_spec})
    claim = {"accessModes": ["ReadWriteOnce"], "volumeName": "volume", "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(
        "/api/v1/namespaces/ns/persistentvolumeclaims",
        {"metadata": {"name": "claim"}, "spec": {**claim, "storageClassName": ""}},
    )
    secret = {"name": "driver", "namespace": "kube-system"}
    await client.create(
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


async def _await_decision(decision: AuthzResult | Awaitable[AuthzResult]) -> AuthzResult:
    """Wait for the decision if the caches are not filled yet."""
    return decision if isinstance(decision, AuthzResult) else await decision


def decisions(*requests: Attributes, feature_gates: FeatureGates | None = None) -> list[tuple[bool, str]]:
    gates = feature_gates or FeatureGates()

    async def work() -> list[tuple[bool, str]]:
        async with in_process_client() as client:
            await create_objects(client)
            authorizer = NodeAuthorizer(relations=NodeGraph(registry=client.registry), feature_gates=gates)
            results = [await _await_decision(authorizer.authorize(attributes)) for attributes in requests]
            return [(decision.decision is AuthzDecision.ALLOW, decision.reason) for decision in results]

    return run(work())


def namespaced_attributes(verb: str, resource: str, name: str = "", user: UserInfo = NODE, **more: str) -> Attributes:
    return attributes_of(verb, resource, user, namespace="ns", name=name, **more)


def test_objects_used_by_pods_are_accessible_only_to_the_node_of_the_pods() -> None:
    used = [
        namespaced_attributes("get", "secrets", "mounted"),
        namespaced_attributes("watch", "secrets", "pull"),
        namespaced_attributes("get", "configmaps", "env"),
        namespaced_attributes("list", "configmaps", "projected"),
        namespaced_attributes("get", "persistentvolumeclaims", "claim"),
        namespaced_attributes("create", "serviceaccounts/token", "robot"),
        namespaced_attributes("get", "pods", "p1"),
        attributes_of("get", "persistentvolumes", NODE, name="volume"),
        attributes_of("get", "secrets", NODE, namespace="kube-system", name="driver"),
    ]
    assert decisions(*used) == [(True, "")] * len(used)
    requests_of_other_node = [msgspec.structs.replace(attributes, user=OTHER_NODE) for attributes in used]
    denial = (False, "no relationship found between node 'n2' and this object")
    assert decisions(*requests_of_other_node) == [denial] * len(used)


_NO_RELATIONSHIP = "no relationship found between node 'n1' and this object"
_NO_NODE_SELECTOR = "can only list/watch pods with spec.nodeName field selector"


def _lease(verb: str, name: str, namespace: str = "kube-node-lease") -> Attributes:
    return attributes_of(verb, "leases", NODE, group="coordination.k8s.io", namespace=namespace, name=name)


REQUESTS: dict[str, tuple[Attributes, tuple[bool, str]]] = {
    "unused secret": (namespaced_attributes("get", "secrets", "unused"), (False, _NO_RELATIONSHIP)),
    "list of secrets": (namespaced_attributes("list", "secrets"), (False, "No Object name found")),
    "update of a secret": (
        namespaced_attributes("update", "secrets", "mounted"),
        (False, "can only read resources of this type"),
    ),
    "secret without a namespace": (
        attributes_of("get", "secrets", NODE, name="x"),
        (False, "can only read namespaced object of this type"),
    ),
    "list of claims": (
        namespaced_attributes("list", "persistentvolumeclaims"),
        (False, "can only get individual resources of this type"),
    ),
    "token of another service account": (
        namespaced_attributes("create", "serviceaccounts/token", "admin"),
        (False, _NO_RELATIONSHIP),
    ),
    "list of pods": (namespaced_attributes("list", "pods"), (False, _NO_NODE_SELECTOR)),
    "list of pods of the node": (attributes_of("list", "pods", NODE, field_selector="spec.nodeName=n1"), (True, "")),
    "list of pods of other nodes": (
        attributes_of("list", "pods", NODE, field_selector="spec.nodeName!=n1"),
        (False, _NO_NODE_SELECTOR),
    ),
    "pod status": (namespaced_attributes("patch", "pods/status", "p1"), (True, "")),
    "exec": (namespaced_attributes("create", "pods/exec", "p1"), (False, "")),
    "own node": (attributes_of("get", "nodes", NODE, name="n1"), (True, "")),
    "another node": (
        attributes_of("get", "nodes", NODE, name="n2"),
        (False, "node 'n1' cannot read 'n2', only its own Node object"),
    ),
    "list of nodes": (
        attributes_of("list", "nodes", NODE),
        (False, "node 'n1' cannot read all nodes, only its own Node object"),
    ),
    "deletion of the node": (attributes_of("delete", "nodes", NODE, name="n1"), (False, "")),
    "services": (attributes_of("get", "services", NODE), (True, "")),
    "event": (attributes_of("create", "events", NODE, namespace="ns"), (True, "")),
    "own lease": (_lease("update", "n1"), (True, "")),
    "lease of another node": (
        _lease("update", "n2"),
        (False, "can only access node lease with the same name as the requesting node"),
    ),
    "lease in another namespace": (
        _lease("get", "n1", "kube-system"),
        (False, 'can only access leases in the "kube-node-lease" system namespace'),
    ),
    "own CSINode": (attributes_of("get", "csinodes", NODE, group="storage.k8s.io", name="n1"), (True, "")),
    "node user without the group": (attributes_of("get", "nodes", UserInfo("system:node:n1"), name="n1"), (False, "")),
    "other user in the group": (
        attributes_of("get", "nodes", UserInfo("ann", groups=("system:nodes",)), name="n1"),
        (False, ""),
    ),
    "node user without a node name": (
        attributes_of("get", "nodes", UserInfo("system:node:", groups=("system:nodes",)), name="n1"),
        (False, 'unknown node for user "system:node:"'),
    ),
}


@pytest.fixture(scope="module")
def decisions_by_name() -> dict[str, tuple[bool, str]]:
    """The decisions of one authorizer on all requests of the table."""
    results = decisions(*(attributes for attributes, _ in REQUESTS.values()))
    return dict(zip(REQUESTS, results, strict=True))


@pytest.mark.parametrize("name", REQUESTS)
def test_decisions_and_reasons_for_requests_of_nodes(name: str, decisions_by_name: dict[str, tuple[bool, str]]) -> None:
    _, expected = REQUESTS[name]
    assert decisions_by_name[name] == expected


def _csi_node_status(verb: str, name: str = "n1") -> Attributes:
    return attributes_of(verb, "csinodes/status", NODE, group="storage.k8s.io", name=name)


def _certificate_request(verb: str, resource: str = "podcertificaterequests", field_selector: str = "") -> Attributes:
    return namespaced_attributes(verb, resource, group="certificates.k8s.io", field_selector=field_selector)


@pytest.mark.parametrize("is_enabled", [False, True])
def test_status_of_the_csi_node_is_gated(is_enabled: bool) -> None:
    gates = FeatureGates({"CSIVolumeHealth": is_enabled}, level=37)
    refusal = (False, "CSINode status access requires CSIVolumeHealth feature")
    expected = [(True, ""), (False, "can only get, update, or patch CSINode status")] if is_enabled else [refusal] * 2
    assert decisions(_csi_node_status("patch"), _csi_node_status("delete"), feature_gates=gates) == expected


@pytest.mark.parametrize("is_enabled", [False, True])
def test_pod_certificate_requests_are_gated(is_enabled: bool) -> None:
    gates = FeatureGates({"PodCertificateRequest": is_enabled}, level=37)
    requests = [
        (_certificate_request("create"), (True, "")),
        (_certificate_request("list", field_selector="spec.nodeName=n1"), (True, "")),
        (
            _certificate_request("list"),
            (False, "can only list/watch podcertificaterequests with nodeName field selector"),
        ),
        (_certificate_request("delete"), (False, "nodes may not delete podcertificaterequests")),
        (
            _certificate_request("patch", "podcertificaterequests/status"),
            (False, "nodes may not access the status subresource of PodCertificateRequests"),
        ),
    ]
    expected = [result if is_enabled else (False, "") for _, result in requests]
    assert decisions(*(attributes for attributes, _ in requests), feature_gates=gates) == expected
