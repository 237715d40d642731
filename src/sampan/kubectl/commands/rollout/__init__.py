"""`kubectl rollout`: follow and control the rollouts of workloads, one module per command."""

from __future__ import annotations

from sampan.kubectl.command import LateGroup

_COMMANDS = ("history", "pause", "restart", "resume", "status", "undo")


command = LateGroup(
    "rollout",
    package=__name__,
    modules={name: (name, ()) for name in _COMMANDS},
    help="Follow and control the rollouts of deployments, daemon sets, stateful sets.",
)
