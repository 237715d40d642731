"""Names of the resource claims of a pod, and creation of claims from templates."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.semantics.owners import is_controlled_by
from sampan.api.types.core_v1 import Pod, PodResourceClaim
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimTemplate
from sampan.controllers.devices import pod_claims


def pod(status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    meta = {"name": "p", "namespace": "default", "uid": "u"}
    return codec.from_value({"metadata": meta, "spec": spec, "status": status or {}}, Pod)


BY_NAME = PodResourceClaim(name="a", resourceClaimName="mine")
BY_TEMPLATE = PodResourceClaim(name="b", resourceClaimTemplateName="t")


@pytest.mark.parametrize(
    ("pod_claim", "status", "name"),
    [
        (BY_NAME, {}, "mine"),
        (BY_TEMPLATE, {}, ""),
        (BY_TEMPLATE, {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x"}]}, "p-b-x"),
        (BY_TEMPLATE, {"resourceClaimStatuses": [{"name": "b"}]}, None),
    ],
)
def test_claim_name_by_reference_or_template(
    pod_claim: PodResourceClaim, status: dict[str, Any], name: str | None
) -> None:
    assert pod_claims.claim_name(pod(status), pod_claim) == name


def test_claim_names_include_the_extended_resource_claim() -> None:
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": []}}
    assert pod_claims.claim_names(pod(status)) == ["x"]


def test_claim_is_built_from_a_template() -> None:
    spec = {"metadata": {"labels": {"l": "1"}, "annotations": {"n": "2"}}, "spec": {"devices": {}}}
    template = codec.from_value({"metadata": {"name": "t"}, "spec": spec}, ResourceClaimTemplate)
    claim = pod_claims.claim_from(template, pod(), BY_TEMPLATE)
    assert claim.metadata.generateName == "p-b-"
    assert claim.metadata.labels == {"l": "1"}
    assert claim.metadata.annotations == {"n": "2", "resource.kubernetes.io/pod-claim-name": "b"}
    (owner,) = claim.metadata.ownerReferences
    assert (owner.kind, owner.name, owner.uid, owner.controller, owner.blockOwnerDeletion) == (
        "Pod",
        "p",
        "u",
        True,
        None,
    )
    assert is_controlled_by(claim, pod())


def test_long_pod_and_claim_names_are_truncated_in_proportion() -> None:
    base = pod_claims.base_name("p" * 60, "c" * 20)
    assert base == "p" * (60 * 57 // 82) + "-" + "c" * (20 * 57 // 82)
    assert len(base) <= 57


@pytest.mark.parametrize(
    ("phase", "node", "deleted", "is_done"),
    [
        ("Running", "n", None, False),
        ("Running", "n", "2026-01-01T00:00:00Z", False),
        ("Pending", "", "2026-01-01T00:00:00Z", True),
        ("Succeeded", "n", None, True),
        ("Failed", "n", None, True),
    ],
)
def test_pod_is_done_when_finished_or_deleted_before_binding(
    phase: str, node: str, deleted: str | None, is_done: bool
) -> None:
    new_pod = pod({"phase": phase}, nodeName=node)
    new_pod.metadata.deletionTimestamp = deleted
    assert pod_claims.is_done(new_pod) == is_done


def test_claim_with_256_consumers_takes_no_reservation() -> None:
    consumers = [{"resource": "pods", "name": str(at), "uid": str(at)} for at in range(256)]
    value = {"metadata": {"name": "c"}, "status": {"allocation": {}, "reservedFor": consumers}}
    claim = codec.from_value(value, ResourceClaim)
    assert not pod_claims.needs_reservation(claim, pod())
    del claim.status.reservedFor[0]
    assert pod_claims.needs_reservation(claim, pod())
