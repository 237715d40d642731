"""The current revision and the update revision of a StatefulSet."""

from collections.abc import Sequence
from dataclasses import dataclass

from sampan.api.selectors.labels import Selector
from sampan.api.types.apps_v1 import ControllerRevision, StatefulSet
from sampan.api.types.core_v1 import Pod
from sampan.controllers.ownership import revisions
from sampan.controllers.ownership.revisions import RevisionHistory
from sampan.controllers.workloads.statefulset.identity import revision_of
from sampan.machinery import errors

HASH_LABEL = "controller.kubernetes.io/hash"


@dataclass(frozen=True, slots=True)
class TemplateMatch:
    """The revision in the history that has the set's template, if any."""

    latest: ControllerRevision | None = None
    """The newest revision, if its pod template is the current one of the StatefulSet; otherwise None."""
    older: ControllerRevision | None = None
    """An older revision with the current pod template of the StatefulSet, as after a rollback; otherwise None."""


def find_template(history: list[ControllerRevision], sset: StatefulSet) -> TemplateMatch:
    """Find the template in the history, which is sorted from oldest to newest."""
    if not history:
        return TemplateMatch()
    patch = revisions.template_patch(sset.spec.template)
    equal = [revision for revision in history if revisions.is_equal(revision, patch)]
    latest = history[-1]
    if equal:
        return TemplateMatch(latest=latest) if revisions.is_equal(latest, patch) else TemplateMatch(older=equal[-1])
    return TemplateMatch(latest=latest) if revisions.is_alike(latest, sset.spec.template) else TemplateMatch()


@dataclass(frozen=True, slots=True)
class SetRevisions:
    current: ControllerRevision
    update: ControllerRevision
    collisions: int
    history: list[ControllerRevision]
    """The revisions before this sync, from oldest to newest."""

    def surplus(self, sset: StatefulSet, pods: Sequence[Pod]) -> list[ControllerRevision]:
        """Return the unused revisions that exceed the history limit."""
        limit = 10 if sset.spec.revisionHistoryLimit is None else sset.spec.revisionHistoryLimit
        if len(self.history) <= limit:
            return []
        live = {self.current.metadata.name, self.update.metadata.name, *(revision_of(pod) for pod in pods)}
        return revisions.surplus(self.history, limit, live)


class RevisionFinder:
    def __init__(self, *, history: RevisionHistory) -> None:
        self._history = history

    async def find(self, sset: StatefulSet, selector: Selector) -> SetRevisions:
        """Return the revisions, after adopting orphans and recording the template if it is new."""
        history = await self._history.claim_revisions(sset, selector)
        update, collisions = await self._update(sset, history)
        current_name = sset.status.currentRevision
        current = next((revision for revision in history if revision.metadata.name == current_name), update)
        return SetRevisions(current, update, collisions, history)

    async def truncate(self, surplus: list[ControllerRevision]) -> None:
        await self._history.delete(surplus)

    async def _update(self, sset: StatefulSet, history: list[ControllerRevision]) -> tuple[ControllerRevision, int]:
        matches, collisions = find_template(history, sset), sset.status.collisionCount or 0
        if matches.latest is not None:
            return matches.latest, collisions
        number = revisions.next_number(history)
        if matches.older is not None:
            return await self._history.renumber(matches.older, number), collisions
        return await self._create(sset, number, collisions)

    async def _create(self, sset: StatefulSet, number: int, collisions: int) -> tuple[ControllerRevision, int]:
        template = sset.spec.template
        patch = revisions.template_patch(template)
        while True:
            revision = revisions.new_revision(
                sset,
                template,
                number,
                hash=revisions.data_hash(patch, collisions),
                hash_label=HASH_LABEL,
                patch=patch,
            )
            try:
                return await self._history.create(revision), collisions
            except errors.AlreadyExists:
                present = await self._history.get(revision.metadata.name, revision.metadata.namespace)
                if revisions.is_equal(present, patch):
                    return present, collisions
                collisions += 1
