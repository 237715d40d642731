"""The writes that bind claims and volumes, which are skipped if nothing changes."""

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.controllers.storage.binding_decisions import EventText
from sampan.machinery import volumes
from sampan.machinery.client import Client
from sampan.machinery.events import EventRecorder
from sampan.machinery.volumes import AVAILABLE, BOUND


class BindingWriter:
    def __init__(self, *, client: Client, events: EventRecorder) -> None:
        self.volumes, self.claims = client.for_kind(PersistentVolume), client.for_kind(PersistentVolumeClaim)
        self._events = events

    async def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind volume and claim. The volume is written first, as only one claim can win it."""
        if (bound_volume := volumes.bind_volume(volume, claim)) is not None:
            volume = await self.volumes.update(bound_volume)
        volume = await self.volume_in(volume, BOUND)
        if (bound_claim := volumes.bind_claim(claim, volume)) is not None:
            claim = await self.claims.update(bound_claim)
        await self.claim_in(claim, BOUND, volume)

    async def unbind(self, volume: PersistentVolume) -> None:
        await self.volume_in(await self.volumes.update(volumes.unbind_volume(volume)), AVAILABLE)

    async def claim_in(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        changed = volumes.set_claim_phase(claim, phase, volume)
        return claim if changed is None else await self.claims.update_status(changed)

    async def volume_in(self, volume: PersistentVolume, phase: str, word: EventText | None = None) -> PersistentVolume:
        """Set the phase of the volume, and record the event if the phase changes."""
        changed = volumes.set_volume_phase(volume, phase, word.message if word is not None else "")
        if changed is None:
            return volume
        volume = await self.volumes.update_status(changed)
        if word is not None:
            self.record_event(volume, word)
        return volume

    def record_event(self, obj: PersistentVolume | PersistentVolumeClaim, word: EventText) -> None:
        self._events.event(obj, word.type, word.reason, word.message)
