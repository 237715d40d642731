"""The OOM scores (oom_score_adj) that this process may give to containers."""

from __future__ import annotations

from pathlib import Path

from sampan.runtimes.kernel import held_capabilities

_SYS_RESOURCE = 24


def allowed(score: int) -> int:
    """Return the score, or the lowest one that this process may set. Without CAP_SYS_RESOURCE that is its own score."""
    if score >= 0 or may_lower():
        return score
    try:
        return max(score, int(Path("/proc/self/oom_score_adj").read_text()))
    except (OSError, ValueError):
        return max(score, 0)


def may_lower() -> bool:
    return bool(held_capabilities() >> _SYS_RESOURCE & 1)
