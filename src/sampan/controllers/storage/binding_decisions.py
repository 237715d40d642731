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

NO_VOLUME_MESSAGE = "no persistent volumes available for this claim and no storage class is set"
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
class BindDecision:
    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class WaitDecision:
    """The decision that the claim stays Pending."""

    word: EventText | None = None
    for_consumer: bool = False
    is_failure: bool = False
    """Whether the sync is to be retried."""


@dataclass(frozen=True, slots=True)
class LoseDecision:
    word: EventText


@dataclass(frozen=True, slots=True)
class AssignClassDecision:
    name: str


@dataclass(frozen=True, slots=True)
class ProvisionDecision:
    pass


ClaimDecision = BindDecision | WaitDecision | LoseDecision | AssignClassDecision | ProvisionDecision


def on_new_claim(
    claim: PersistentVolumeClaim, match: PersistentVolume | None, default: StorageClass | None, *, waits: bool
) -> ClaimDecision:
    """Decide about a claim without a volume.

    `match` is the best matching volume. `waits` is true if the storage class waits for the first consumer.
    """
    if match is not None:
        return BindDecision(match)
    if not names_class(claim) and default is not None:
        return AssignClassDecision(default.metadata.name)
    if waits and not has_node(claim):
        return WaitDecision(for_consumer=True)
    return (
        ProvisionDecision()
        if class_of_claim(claim)
        else WaitDecision(EventText(NORMAL, "FailedBinding", NO_VOLUME_MESSAGE))
    )


def on_naming_claim(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimDecision:
    """Decide about a claim that names a volume but is not bound to it yet; `volume` is None if it does not exist."""
    if volume is None:
        return WaitDecision()
    name = volume.metadata.name
    if volume.spec.claimRef is None:
        if reason := explain_mismatch(volume, claim):
            return WaitDecision(
                EventText(WARNING, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {reason}')
            )
        return BindDecision(volume)
    if is_bound_to(volume, claim):
        return BindDecision(volume)
    word = EventText(WARNING, "FailedBinding", f'volume "{name}" already bound to a different claim.')
    return WaitDecision(word, is_failure=BOUND_BY_CONTROLLER in claim.metadata.annotations)


def on_bound_claim(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimDecision:
    if not claim.spec.volumeName:
        return LoseDecision(EventText(WARNING, "ClaimLost", NO_REFERENCE))
    if volume is None:
        return LoseDecision(EventText(WARNING, "ClaimLost", NO_VOLUME))
    if volume.spec.claimRef is None or volume.spec.claimRef.uid == claim.metadata.uid:
        return BindDecision(volume)
    return LoseDecision(EventText(WARNING, "ClaimMisbound", MISBOUND))


@dataclass(frozen=True, slots=True)
class OfferDecision:
    """The decision that the volume becomes Available."""


@dataclass(frozen=True, slots=True)
class KeepDecision:
    """The decision that the volume becomes Bound."""


@dataclass(frozen=True, slots=True)
class SyncClaimDecision:
    mismatch: bool = False


@dataclass(frozen=True, slots=True)
class ReclaimDecision:
    pass


@dataclass(frozen=True, slots=True)
class UnbindDecision:
    pass


VolumeDecision = OfferDecision | KeepDecision | SyncClaimDecision | ReclaimDecision | UnbindDecision


def on_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeDecision:
    """Decide about a volume. `claim` is the claim with the UID that the volume names, if it still exists."""
    if volume.spec.claimRef is None or not volume.spec.claimRef.uid:
        return OfferDecision()
    if claim is None:
        return ReclaimDecision()
    if not claim.spec.volumeName:
        return SyncClaimDecision(mismatch=modes_differ(claim, volume))
    if claim.spec.volumeName == volume.metadata.name:
        return KeepDecision()
    was_made_for_it = PROVISIONED_BY in volume.metadata.annotations
    return (
        ReclaimDecision()
        if was_made_for_it and volume.spec.persistentVolumeReclaimPolicy == DELETE
        else UnbindDecision()
    )
