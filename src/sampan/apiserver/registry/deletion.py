"""How a deletion goes: at once, after a grace, or when the finalizers are gone. Pure; `Store.delete` carries it out."""

from dataclasses import dataclass
from typing import Any, Literal

from sampan.api import times

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

Policy = Literal["", "Orphan", "Foreground", "Background"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    grace_period_seconds: int | None = None
    propagation_policy: Policy = ""
    orphan_dependents: bool | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a deletion does now. `keep`: the object stays, changed as `mark` says; else it goes at once."""

    keep: bool
    changed: bool


def policy_of(options: DeleteOptions, orphans_by_default: bool, finalizers: list[str]) -> Policy:
    if options.orphan_dependents is not None:
        return "Orphan" if options.orphan_dependents else "Background"
    if options.propagation_policy:
        return options.propagation_policy
    if FOREGROUND in finalizers:
        return "Foreground"
    if ORPHAN in finalizers or orphans_by_default:
        return "Orphan"
    return "Background"


def finalizers_for(policy: Policy, finalizers: list[str]) -> list[str]:
    """The object's finalizers with those of the garbage collector as the policy needs them."""
    kept = [f for f in finalizers if f not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        kept.append(ORPHAN)
    elif policy == "Foreground":
        kept.append(FOREGROUND)
    return kept


def mark(obj: Any, *, grace_s: int | None, policy: Policy, now: float) -> Plan:
    """Mark the object (in place) as being deleted.

    `grace_s` is the kind's own grace for this deletion, None for a kind without. A mark that is there is never moved to
    a later time, and only a shorter grace is taken.
    """
    meta = obj.metadata
    before = (list(meta.finalizers), meta.deletionTimestamp, meta.deletionGracePeriodSeconds)
    meta.finalizers = finalizers_for(policy, meta.finalizers)
    seconds = grace_s or 0
    if meta.deletionTimestamp is None:
        meta.deletionTimestamp = times.format_time(now + seconds)
        meta.deletionGracePeriodSeconds = seconds
        if meta.generation > 0:
            meta.generation += 1
    elif grace_s is not None and seconds < (meta.deletionGracePeriodSeconds or 0):
        began = times.parse_time(meta.deletionTimestamp) - (meta.deletionGracePeriodSeconds or 0)
        meta.deletionTimestamp = times.format_time(began + seconds)
        meta.deletionGracePeriodSeconds = seconds
    after = (meta.finalizers, meta.deletionTimestamp, meta.deletionGracePeriodSeconds)
    keep = bool(meta.finalizers) or (meta.deletionGracePeriodSeconds or 0) > 0
    return Plan(keep=keep, changed=after != before)


def is_finished(obj: Any) -> bool:
    """Whether an object that was marked has nothing left to wait for, so that an update may remove it."""
    meta = obj.metadata
    return meta.deletionTimestamp is not None and not meta.finalizers and (meta.deletionGracePeriodSeconds or 0) == 0
