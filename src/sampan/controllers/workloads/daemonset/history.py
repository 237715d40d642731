"""The ControllerRevisions of a DaemonSet: the one of its current template, and old ones."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from sampan.api.selectors.labels import Selector
from sampan.api.semantics.owners import controller_of
from sampan.api.types.apps_v1 import ControllerRevision, DaemonSet
from sampan.api.types.core_v1 import Pod
from sampan.controllers.ownership import OwnerIndex, revisions
from sampan.controllers.ownership.revisions import RevisionHistory
from sampan.controllers.workloads.daemonset.nodes import HASH_LABEL
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import Lister
from sampan.machinery.object_key import NamespacedName


@dataclass(frozen=True, slots=True)
class DaemonSetRevisions:
    current: ControllerRevision
    old: Sequence[ControllerRevision]
    """Old revisions from oldest to newest."""

    @property
    def hash(self) -> str:
        return self.current.metadata.labels.get(HASH_LABEL, "")


def split(
    history: Sequence[ControllerRevision], daemon_set: DaemonSet
) -> tuple[list[ControllerRevision], list[ControllerRevision]]:
    """Return the revisions of the current template, and the revisions of older templates."""
    template = daemon_set.spec.template
    patch = revisions.template_patch(template)
    current = [revision for revision in history if revisions.is_equal(revision, patch)]
    if not current:
        current = [revision for revision in history if revisions.is_alike(revision, template)]
    names = {revision.metadata.name for revision in current}
    return current, [revision for revision in history if revision.metadata.name not in names]


def surplus(old: Sequence[ControllerRevision], limit: int, live: Collection[str]) -> list[ControllerRevision]:
    """Return the oldest revisions to delete so that `limit` remain. Revisions whose hash is in `live` are not deleted,
    but count toward the limit."""
    dead = [revision for revision in old if revision.metadata.labels.get(HASH_LABEL) not in live]
    return dead[: max(len(old) - limit, 0)]


class RevisionKeys:
    """Maps revisions to the DaemonSets to reconcile.

    A revision with a controller that is seen for the first time maps to none, as the DaemonSet itself has just created
    it.
    """

    def __init__(self, *, owners: OwnerIndex[DaemonSet], field_sets: Lister[ControllerRevision]) -> None:
        self._owners, self._known = owners, field_sets
        self._observed: set[str] = set()

    def keys(self, revision: ControllerRevision) -> Iterable[NamespacedName]:
        meta = revision.metadata
        present = self._known.get(meta.name, meta.namespace)
        if present is None or present.metadata.uid != meta.uid:
            self._observed.discard(meta.uid)
        elif meta.uid not in self._observed:
            self._observed.add(meta.uid)
            if controller_of(revision) is not None:
                return ()
        return self._owners.keys(revision)


class DaemonHistory:
    def __init__(self, *, client: Client, history: RevisionHistory) -> None:
        self._sets, self._pods, self._history = client.for_kind(DaemonSet), client.for_kind(Pod), history

    async def find(self, daemon_set: DaemonSet, selector: Selector, pods: Sequence[Pod]) -> DaemonSetRevisions:
        """Return the revisions, after adopting orphans and recording the template if it is new."""
        history = [
            await self._ensure_hash_label(revision)
            for revision in await self._history.claim_revisions(daemon_set, selector)
        ]
        current, old = split(history, daemon_set)
        number = revisions.next_number(old)
        if not current:
            return DaemonSetRevisions(await self._record(daemon_set, number), old)
        remaining_revision = await self._deduplicate(current, pods)
        if remaining_revision.revision < number:
            remaining_revision = await self._history.renumber(remaining_revision, number)
        return DaemonSetRevisions(remaining_revision, old)

    async def truncate(self, daemon_set: DaemonSet, old: Sequence[ControllerRevision], pods: Sequence[Pod]) -> None:
        limit = daemon_set.spec.revisionHistoryLimit
        if limit is not None and len(old) > limit:
            live = {pod.metadata.labels.get(HASH_LABEL, "") for pod in pods} - {""}
            await self._history.delete(surplus(old, limit, live))

    async def _ensure_hash_label(self, revision: ControllerRevision) -> ControllerRevision:
        """Return the revision with a hash label; if missing it is set to the name, which is unique."""
        if HASH_LABEL in revision.metadata.labels:
            return revision
        changed = copy_of(revision)
        changed.metadata.labels[HASH_LABEL] = changed.metadata.name
        return await self._history.update(changed)

    async def _deduplicate(self, current: Sequence[ControllerRevision], pods: Sequence[Pod]) -> ControllerRevision:
        """Return the newest of several equal revisions, after relabeling the pods of the others and deleting those."""
        remaining_revision, others = current[-1], current[:-1]
        if others:
            hash, dropped = (
                remaining_revision.metadata.labels[HASH_LABEL],
                {revision.metadata.labels[HASH_LABEL] for revision in others},
            )
            for pod in pods:
                if pod.metadata.labels.get(HASH_LABEL) in dropped:
                    await self._relabel(pod, hash)
            await self._history.delete(others)
        return remaining_revision

    async def _relabel(self, pod: Pod, hash: str) -> None:
        patch: dict[str, Any] = {"metadata": {"labels": {HASH_LABEL: hash}}}
        await self._pods.patch(pod.metadata.name, patch, pod.metadata.namespace, type=PatchType.MERGE)

    async def _record(self, daemon_set: DaemonSet, number: int) -> ControllerRevision:
        template = daemon_set.spec.template
        patch = revisions.template_patch(template)
        hash = revisions.template_hash(template, daemon_set.status.collisionCount)
        revision = revisions.new_revision(daemon_set, template, number, hash=hash, hash_label=HASH_LABEL, patch=patch)
        try:
            return await self._history.create(revision)
        except errors.AlreadyExists:
            present = await self._history.get(revision.metadata.name, revision.metadata.namespace)
            if revisions.is_equal(present, patch):
                return present
            await self._count_collision(daemon_set)
            raise

    async def _count_collision(self, daemon_set: DaemonSet) -> None:
        """Increment the collision count, so that the next attempt yields another name."""
        meta = daemon_set.metadata
        fresh = await self._sets.get(meta.name, meta.namespace)
        if fresh.status.collisionCount != daemon_set.status.collisionCount:
            raise errors.Conflict(
                f"found a stale collision count ({daemon_set.status.collisionCount}, expected "
                f"{fresh.status.collisionCount}) of DaemonSet {meta.name}; will retry until it is updated"
            )
        status = replace(fresh.status, collisionCount=(fresh.status.collisionCount or 0) + 1)
        await self._sets.update_status(replace(fresh, status=status))
