"""ControllerRevisions: the history of pod templates that StatefulSets and DaemonSets keep for rollbacks.

The data of a revision is the patch that restores a template, encoded as Go encodes it: the controllers of
kube-controller-manager compare revisions byte by byte. Higher numbers are more recent: a rollback gives the
revision of the old template the highest number. Decisions are pure; `RevisionHistory` reads and writes.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.go_compat import gotext
from sampan.api.selectors.labels import Selector
from sampan.api.semantics.owners import new_controller_ref
from sampan.api.types.apps_v1 import ControllerRevision
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values.scalars import RawJSON
from sampan.controllers.ownership.adoption import ClaimControl, candidates, claim
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import Lister

_MAX_PREFIX_LENGTH = 223
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""There are no vowels, so that a hash does not form words."""
_FNV_START, _FNV_PRIME, _32_BITS = 2166136261, 16777619, 0xFFFFFFFF

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def template_patch(template: PodTemplateSpec) -> RawJSON:
    """Return the strategic merge patch that restores the template."""
    patch = {"spec": {"template": {"$patch": "replace", **json.read_any(_encode_sorted(template))}}}
    return RawJSON(gotext.json_text(patch).encode())


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    stored = json.read_any(revision.data)["spec"]["template"]
    return json.from_value({key: value for key, value in stored.items() if key != "$patch"}, PodTemplateSpec)


def is_equal(revision: ControllerRevision, patch: RawJSON) -> bool:
    return revision.data == patch or gotext.compact_json(revision.data) == bytes(patch)


def is_alike(revision: ControllerRevision, template: PodTemplateSpec) -> bool:
    """Whether the revision decodes to the same template, even if it was encoded differently."""
    try:
        return template_of(revision) == template
    except (LookupError, TypeError, ValueError):
        return False


def sort_revisions(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """Return the revisions from oldest to newest."""
    return sorted(
        revisions, key=lambda revision: (revision.revision, revision.metadata.creationTimestamp or "", _name(revision))
    )


def next_number(revisions: Iterable[ControllerRevision]) -> int:
    return max((revision.revision for revision in revisions), default=0) + 1


def surplus(old: Sequence[ControllerRevision], limit: int, live: Collection[str]) -> list[ControllerRevision]:
    """Return the oldest of `old` (sorted) to delete so that `limit` remain, except those named in `live`."""
    dead = [revision for revision in old if _name(revision) not in live]
    return dead[: max(len(dead) - limit, 0)] if limit >= 0 else []


def safe_text(number: int) -> str:
    """Encode a hash for use in names and labels."""
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def data_hash(data: RawJSON, probe: int | None) -> str:
    """Return the hash of a revision's data; a different `probe` yields a different hash."""
    suffix = b"" if probe is None else str(probe).encode()
    value = _FNV_START
    for byte in bytes(data) + suffix:
        value = value * _FNV_PRIME & _32_BITS ^ byte
    return safe_text(value)


def template_hash(template: PodTemplateSpec, collisions: int | None) -> str:
    """Return the hash of a template; a different collision count yields a different hash."""
    suffix = b"" if collisions is None else collisions.to_bytes(8, "little")
    value = _FNV_START
    for byte in _encode_sorted(template) + suffix:
        value = (value ^ byte) * _FNV_PRIME & _32_BITS
    return safe_text(value)


def revision_name(owner: str, hash: str) -> str:
    return f"{owner[:_MAX_PREFIX_LENGTH]}-{hash}"


def new_revision(
    owner: Any, template: PodTemplateSpec, number: int, *, hash: str, hash_label: str, patch: RawJSON
) -> ControllerRevision:
    meta = owner.metadata
    return ControllerRevision(
        metadata=ObjectMeta(
            name=revision_name(meta.name, hash),
            namespace=meta.namespace,
            labels={**template.metadata.labels, hash_label: hash},
            annotations=dict(meta.annotations),
            ownerReferences=[new_controller_ref(owner)],
        ),
        data=patch,
        revision=number,
    )


def _name(revision: ControllerRevision) -> str:
    return revision.metadata.name


class RevisionHistory:
    """The revisions of the owners of one kind."""

    def __init__(self, *, client: Client, owners: type[Any], lister: Lister[ControllerRevision]) -> None:
        self._revisions, self._lister = client.for_kind(ControllerRevision), lister
        self._control = ClaimControl(owners=client.for_kind(owners), objects=self._revisions)

    async def claim_revisions(self, owner: Any, selector: Selector) -> list[ControllerRevision]:
        """Return the owner's revisions from oldest to newest, after adopting matching orphans."""
        return sort_revisions(await claim(owner, selector, candidates(self._lister, owner), self._control))

    async def get(self, name: str, namespace: str) -> ControllerRevision:
        """Return the revision from the server."""
        return await self._revisions.get(name, namespace)

    async def create(self, revision: ControllerRevision) -> ControllerRevision:
        return await self._revisions.create(revision)

    async def renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        if revision.revision == number:
            return revision
        changed = copy_of(revision)
        changed.revision = number
        return await self._revisions.update(changed)

    async def update(self, revision: ControllerRevision) -> ControllerRevision:
        return await self._revisions.update(revision)

    async def delete(self, revisions: Iterable[ControllerRevision]) -> None:
        for revision in revisions:
            try:
                await self._revisions.delete(_name(revision), revision.metadata.namespace)
            except errors.NotFound:
                continue
