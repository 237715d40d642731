"""Which events requeue a pod that waits for devices."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod, PodResourceClaim, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimConsumerReference
from sampan.machinery.copies import copy_of
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource
from sampan.scheduler.simulation import Simulation
from tests.scheduler.devices.device_world import allocated_claim, claim, exact_request, result
from tests.scheduler.random_clusters import fill_informers, plugin_of, profile_with

CLAIM = EventResource.RESOURCE_CLAIM


def waiting_pod(simulation: Simulation, *claims: str) -> Any:
    pod_claims = [PodResourceClaim(name=name, resourceClaimName=name) for name in claims]
    meta = ObjectMeta(name="p", namespace="x", uid="p")
    return simulation.pods.info(Pod(metadata=meta, spec=PodSpec(containers=[], resourceClaims=pod_claims)))


def requeues(action: ActionType, old: ResourceClaim | None, new: ResourceClaim | None, *claims: str) -> bool:
    """Whether the event requeues a pod with these claims; the claim "own" and the changed claim exist."""
    simulation = Simulation(profile=profile_with("DynamicResources"))
    fill_informers(
        simulation, *(stored for stored in (claim(exact_request("r"), name="own"), new) if stored is not None)
    )
    hints = dict(plugin_of(simulation, "DynamicResources").events_to_register())
    hint: Any = hints[ClusterEvent(CLAIM, action)]
    return bool(hint(waiting_pod(simulation, *claims), old, new))


def reserved_claim(claim: ResourceClaim) -> ResourceClaim:
    copy = copy_of(claim)
    copy.status.reservedFor = [ResourceClaimConsumerReference(resource="pods", name="q", uid="q")]
    return copy


def labelled_claim(claim: ResourceClaim) -> ResourceClaim:
    copy = copy_of(claim)
    copy.metadata.labels = {"new": "label"}
    return copy


FREE, ALLOCATED = claim(exact_request("r"), name="other"), allocated_claim(result("d0"), name="other")


@pytest.mark.parametrize(
    ("action", "old", "new", "claims", "expected"),
    [
        (ActionType.ADD, None, FREE, ("own",), False),
        (ActionType.ADD, None, FREE, ("own", "other"), True),
        (ActionType.UPDATE, ALLOCATED, FREE, ("own",), True),
        (ActionType.UPDATE, ALLOCATED, FREE, (), True),
        (ActionType.UPDATE, ALLOCATED, FREE, ("own", "missing"), False),
        (ActionType.UPDATE, FREE, ALLOCATED, ("own",), False),
        (ActionType.UPDATE, FREE, ALLOCATED, ("other",), True),
        (ActionType.UPDATE, ALLOCATED, reserved_claim(ALLOCATED), ("other",), True),
        (ActionType.UPDATE, ALLOCATED, labelled_claim(ALLOCATED), ("other",), False),
        (ActionType.DELETE, ALLOCATED, None, ("own",), True),
        (ActionType.DELETE, FREE, None, ("own",), False),
    ],
)
def test_claim_events_that_requeue_a_pod(
    action: ActionType, old: Any, new: Any, claims: tuple[str, ...], expected: bool
) -> None:
    assert requeues(action, old, new, *claims) is expected


def test_deletion_of_a_leftover_claim_requeues_the_pod() -> None:
    leftover = claim(exact_request("r"), name="left")
    leftover.metadata.annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    leftover.metadata.ownerReferences = [
        OwnerReference(apiVersion="v1", kind="Pod", name="p", uid="p", controller=True)
    ]
    assert requeues(ActionType.DELETE, leftover, None)


@pytest.mark.parametrize("resource", [EventResource.RESOURCE_SLICE, EventResource.DEVICE_CLASS])
@pytest.mark.parametrize("action", [ActionType.ADD, ActionType.UPDATE])
def test_slice_and_class_events_requeue_all_pods(resource: EventResource, action: ActionType) -> None:
    simulation = Simulation(profile=profile_with("DynamicResources"))
    hints = dict(plugin_of(simulation, "DynamicResources").events_to_register())
    assert hints[ClusterEvent(resource, action)] is None
