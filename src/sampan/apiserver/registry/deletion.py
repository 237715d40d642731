"""How an object is deleted: at once, after a grace period, or when its finalizers are removed.

The functions here only decide; `Store.delete` writes the result.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

Policy = Literal["", "Orphan", "Foreground", "Background"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    grace_period_seconds: int | None = None
    propagation_policy: Policy = ""
    orphan_dependents: bool | None = None
    uid: str | None = None
    """The UID that the object must have; None for any."""
    resource_version: str | None = None
    dry_run: bool = False
    ignores_read_errors: bool = False
    """Whether the object is to be removed only if it cannot be read, without regard to its finalizers."""

    @property
    def names_policy(self) -> bool:
        return self.orphan_dependents is not None or self.propagation_policy != ""


class DeletionAction(Enum):
    """What happens to an object that is to be deleted. Marked means that its deletionTimestamp is set."""

    NONE = "is being deleted already, and nothing changes"
    MARK = "stays for now, marked"
    MARK_AND_REMOVE = "is stored with its mark first, so that watchers see that, and then removed"
    REMOVE = "is removed as it is, and not marked"


def policy_of(options: DeleteOptions, default: Policy, finalizers: list[str]) -> Policy:
    """Return the propagation policy: the client's, else that of a finalizer of the object, else the kind's default."""
    if options.orphan_dependents is not None:
        return "Orphan" if options.orphan_dependents else "Background"
    if options.propagation_policy:
        return options.propagation_policy
    for finalizer in finalizers:
        if finalizer == FOREGROUND:
            return "Foreground"
        if finalizer == ORPHAN:
            return "Orphan"
    return default


def finalizers_for(policy: Policy, finalizers: list[str]) -> list[str]:
    """Return the object's finalizers, with those of the garbage collector added or removed as the policy requires."""
    desired = [f for f in finalizers if f not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        desired.append(ORPHAN)
    elif policy == "Foreground":
        desired.append(FOREGROUND)
    return finalizers if set(desired) == set(finalizers) else desired


def mark(obj: Any, *, grace_s: int | None, requested_s: int | None, policy: Policy, now: float) -> DeletionAction:
    """Set the deletionTimestamp, grace period and finalizers of the object (in place), and return what happens to it.

    `grace_s` is the grace period of a first deletion, None for a kind without graceful deletion. `requested_s` is the
    client's (a negative number means 1), which can only shorten the grace period of a deletion that is in progress.
    """
    meta: ObjectMeta = obj.metadata
    is_graceful = grace_s is not None
    if grace_s is not None and meta.deletionTimestamp is None:
        _begin(meta, grace_s, now)
    elif is_graceful and meta.deletionGracePeriodSeconds:
        shorter_s = 1 if requested_s is not None and requested_s < 0 else requested_s
        if shorter_s is None or shorter_s >= meta.deletionGracePeriodSeconds:
            return DeletionAction.NONE
        _shorten(meta, shorter_s, now)
    else:
        is_graceful = False
    finalizers = finalizers_for(policy, meta.finalizers)
    if not is_graceful:
        if not finalizers:
            return DeletionAction.REMOVE
        _end_grace(meta, now)
    meta.finalizers = finalizers
    return DeletionAction.MARK if finalizers or meta.deletionGracePeriodSeconds else DeletionAction.MARK_AND_REMOVE


def _begin(meta: ObjectMeta, grace_s: int, now: float) -> None:
    meta.deletionTimestamp = times.format_time(now + grace_s)
    meta.deletionGracePeriodSeconds = grace_s
    if meta.generation > 0:
        meta.generation += 1


def _shorten(meta: ObjectMeta, grace_s: int, now: float) -> None:
    """Set the deletionTimestamp as if the deletion had started with this grace period, but never into the past."""
    end = times.parse_time(meta.deletionTimestamp or "") - (meta.deletionGracePeriodSeconds or 0) + grace_s
    if end < now:
        end, grace_s = now, min(grace_s, 1)
    meta.deletionTimestamp = times.format_time(end)
    meta.deletionGracePeriodSeconds = grace_s


def _end_grace(meta: ObjectMeta, now: float) -> None:
    """End the grace period now, so that only finalizers delay the removal."""
    if meta.deletionTimestamp is None:
        _begin(meta, 0, now)
    elif times.parse_time(meta.deletionTimestamp) > now:
        meta.deletionTimestamp = times.format_time(now)
    meta.deletionGracePeriodSeconds = 0


def is_finished(obj: Any) -> bool:
    """Whether the object is marked as deleted and neither finalizers nor a grace period delay its removal."""
    meta = obj.metadata
    return meta.deletionTimestamp is not None and not meta.finalizers and not meta.deletionGracePeriodSeconds
