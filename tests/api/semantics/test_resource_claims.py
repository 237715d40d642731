"""Reservations of ResourceClaims."""

from sampan.api.semantics.resource_claims import MAX_CONSUMERS, can_be_reserved, consumer_reference, is_reserved_for
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import ResourceClaim


def pod(number: int) -> Pod:
    return Pod(metadata=ObjectMeta(name=f"p{number}", uid=f"u{number}"))


def test_a_claim_is_reserved_by_uid() -> None:
    claim = ResourceClaim()
    claim.status.reservedFor = [consumer_reference(pod(1))]
    assert is_reserved_for(claim, pod(1))
    assert not is_reserved_for(claim, Pod(metadata=ObjectMeta(name="p1", uid="another")))


def test_a_claim_has_a_limited_number_of_consumers() -> None:
    claim = ResourceClaim()
    claim.status.reservedFor = [consumer_reference(pod(number)) for number in range(MAX_CONSUMERS - 1)]
    assert can_be_reserved(claim)
    claim.status.reservedFor.append(consumer_reference(pod(MAX_CONSUMERS)))
    assert not can_be_reserved(claim)
