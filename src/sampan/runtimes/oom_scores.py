"""How gladly the kernel kills a process for want of memory: what may be asked for here."""

from __future__ import annotations

from pathlib import Path

from sampan.runtimes.kernel import held_capabilities

_SYS_RESOURCE = 24


def allowed(score: int) -> int:
    """The score, or the least that this process may give others: without the capability none below its own."""
    if score >= 0 or may_lower():
        return score
    try:
        return max(score, int(Path("/proc/self/oom_score_adj").read_text()))
    except (OSError, ValueError):
        return max(score, 0)


def may_lower() -> bool:
    return bool(held_capabilities() >> _SYS_RESOURCE & 1)


__all__ = ["allowed", "may_lower"]
