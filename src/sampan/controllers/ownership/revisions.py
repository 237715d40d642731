"""ControllerRevisions: the history of templates that StatefulSets and DaemonSets keep, so that one can go back.

A revision's data is the patch that restores a template. Its number says how recent it is: going back to an old template
gives that one's revision the highest number. Deciding is pure; `History` reads and writes.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.labels import Selector
from sampan.api.types.apps_v1 import ControllerRevision
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.ownership.candidates import candidates
from sampan.controllers.ownership.claims import ClaimControl, claim
from sampan.controllers.ownership.references import controller_ref
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import Lister

_LONGEST_PREFIX = 223
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels: a hash should spell no words."""
_FNV_START, _FNV_PRIME, _32_BITS = 2166136261, 16777619, 0xFFFFFFFF

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def template_patch(template: PodTemplateSpec) -> dict[str, Any]:
    """The strategic patch that restores the template, its keys in order, as clients compare it byte by byte."""
    return {"spec": {"template": {"$patch": "replace", **json.read_any(_encode_sorted(template))}}}


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """The template that the revision restores."""
    stored = revision.data["spec"]["template"]
    return json.from_value({key: value for key, value in stored.items() if key != "$patch"}, PodTemplateSpec)


def is_equal(revision: ControllerRevision, patch: dict[str, Any]) -> bool:
    return bool(revision.data == patch)


def is_alike(revision: ControllerRevision, template: PodTemplateSpec) -> bool:
    """The revision means the same template, though another version may have written it in another way."""
    try:
        return template_of(revision) == template
    except (LookupError, TypeError, ValueError):
        return False


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """The oldest first."""
    return sorted(revisions, key=lambda found: (found.revision, found.metadata.creationTimestamp or "", _name(found)))


def next_number(revisions: Iterable[ControllerRevision]) -> int:
    return max((found.revision for found in revisions), default=0) + 1


def surplus(old: Sequence[ControllerRevision], limit: int, live: Collection[str]) -> list[ControllerRevision]:
    """Those that go so that `limit` remain: the oldest of `old`, which is in order, but none whose name is `live`."""
    dead = [found for found in old if _name(found) not in live]
    return dead[: max(len(dead) - limit, 0)] if limit >= 0 else []


def safe_text(number: int) -> str:
    """A hash as names and labels have it."""
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def data_hash(data: Any, probe: int | None) -> str:
    """Of a revision's data; another `probe` gives another hash."""
    suffix = b"" if probe is None else str(probe).encode()
    found = _FNV_START
    for byte in _encode_sorted(data) + suffix:
        found = found * _FNV_PRIME & _32_BITS ^ byte
    return safe_text(found)


def template_hash(template: PodTemplateSpec, collisions: int | None) -> str:
    """Of a template; another count of collisions gives another hash."""
    suffix = b"" if collisions is None else collisions.to_bytes(8, "little")
    found = _FNV_START
    for byte in _encode_sorted(template) + suffix:
        found = (found ^ byte) * _FNV_PRIME & _32_BITS
    return safe_text(found)


def revision_name(owner: str, hash: str) -> str:
    return f"{owner[:_LONGEST_PREFIX]}-{hash}"


def new_revision(
    owner: Any, template: PodTemplateSpec, number: int, *, hash: str, hash_label: str, patch: dict[str, Any]
) -> ControllerRevision:
    """What records the owner's template under that number."""
    meta = owner.metadata
    return ControllerRevision(
        metadata=ObjectMeta(
            name=revision_name(meta.name, hash),
            namespace=meta.namespace,
            labels={**template.metadata.labels, hash_label: hash},
            annotations=dict(meta.annotations),
            ownerReferences=[controller_ref(owner)],
        ),
        data=patch,
        revision=number,
    )


def _name(revision: ControllerRevision) -> str:
    return revision.metadata.name


class History:
    """The revisions of the owners of one kind."""

    def __init__(self, *, client: Client, owners: type[Any], lister: Lister[ControllerRevision]) -> None:
        self._revisions, self._lister = client.of(ControllerRevision), lister
        self._control = ClaimControl(owners=client.of(owners), objects=self._revisions)

    async def claimed(self, owner: Any, selector: Selector) -> list[ControllerRevision]:
        """The owner's, in order; orphans that it selects become its own."""
        return in_order(await claim(owner, selector, candidates(self._lister, owner), self._control))

    async def get(self, name: str, namespace: str) -> ControllerRevision:
        """As the server has it."""
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
        for found in revisions:
            try:
                await self._revisions.delete(_name(found), found.metadata.namespace)
            except errors.NotFound:
                continue


__all__ = [
    "History",
    "data_hash",
    "in_order",
    "is_alike",
    "is_equal",
    "new_revision",
    "next_number",
    "revision_name",
    "surplus",
    "template_hash",
    "template_of",
    "template_patch",
]
