"""The decisions about claims and volumes. Pure."""

from dataclasses import dataclass

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.events import NORMAL, WARNING
from sampan.machinery.volumes import (
    BOUND_BY_CONTROLLER,
    DELETE,
    PROVISIONED_BY,
    class_of_claim,
    explain_mismatch,
    has_node,
    is_bound_to,
    modes_differ,
    names_class,
)

NOTHING_SUITS = "no persistent volumes available for this claim and no storage class is set"
NO_REFERENCE = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
NO_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"


@dataclass(frozen=True, slots=True)
class EventText:
    """An event to record about a claim or a volume."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class BindClaim:
    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Wait:
    """The decision that the claim stays Pending."""

    word: EventText | None = None
    for_consumer: bool = False
    is_failure: bool = False
    """Whether the sync is to be retried."""


@dataclass(frozen=True, slots=True)
class Lose:
    word: EventText


@dataclass(frozen=True, slots=True)
class TakeClass:
    name: str


@dataclass(frozen=True, slots=True)
class Provision:
    pass


ClaimDecision = BindClaim | Wait | Lose | TakeClass | Provision


def on_new_claim(
    claim: PersistentVolumeClaim, match: PersistentVolume | None, default: StorageClass | None, *, waits: bool
) -> ClaimDecision:
    """Decide about a claim without a volume.

    `match` is the best matching volume. `waits` is true if the storage class waits for the first consumer.
    """
    if match is not None:
        return BindClaim(match)
    if not names_class(claim) and default is not None:
        return TakeClass(default.metadata.name)
    if waits and not has_node(claim):
        return Wait(for_consumer=True)
    return Provision() if class_of_claim(claim) else Wait(EventText(NORMAL, "FailedBinding", NOTHING_SUITS))


def on_naming_claim(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimDecision:
    """Decide about a claim that names a volume but is not bound to it yet; `volume` is None if it does not exist."""
    if volume is None:
        return Wait()
    name = volume.metadata.name
    if volume.spec.claimRef is None:
        if reason := explain_mismatch(volume, claim):
            return Wait(EventText(WARNING, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {reason}'))
        return BindClaim(volume)
    if is_bound_to(volume, claim):
        return BindClaim(volume)
    word = EventText(WARNING, "FailedBinding", f'volume "{name}" already bound to a different claim.')
    return Wait(word, is_failure=BOUND_BY_CONTROLLER in claim.metadata.annotations)


def on_bound_claim(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimDecision:
    if not claim.spec.volumeName:
        return Lose(EventText(WARNING, "ClaimLost", NO_REFERENCE))
    if volume is None:
        return Lose(EventText(WARNING, "ClaimLost", NO_VOLUME))
    if volume.spec.claimRef is None or volume.spec.claimRef.uid == claim.metadata.uid:
        return BindClaim(volume)
    return Lose(EventText(WARNING, "ClaimMisbound", MISBOUND))


@dataclass(frozen=True, slots=True)
class Offer:
    """The decision that the volume becomes Available."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The decision that the volume becomes Bound."""


@dataclass(frozen=True, slots=True)
class LookAtClaim:
    mismatch: bool = False


@dataclass(frozen=True, slots=True)
class Reclaim:
    pass


@dataclass(frozen=True, slots=True)
class Unbind:
    pass


VolumeDecision = Offer | Keep | LookAtClaim | Reclaim | Unbind


def on_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeDecision:
    """Decide about a volume. `claim` is the claim with the UID that the volume names, if it still exists."""
    if volume.spec.claimRef is None or not volume.spec.claimRef.uid:
        return Offer()
    if claim is None:
        return Reclaim()
    if not claim.spec.volumeName:
        return LookAtClaim(mismatch=modes_differ(claim, volume))
    if claim.spec.volumeName == volume.metadata.name:
        return Keep()
    was_made_for_it = PROVISIONED_BY in volume.metadata.annotations
    return Reclaim() if was_made_for_it and volume.spec.persistentVolumeReclaimPolicy == DELETE else Unbind()
