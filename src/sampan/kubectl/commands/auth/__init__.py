"""`kubectl auth`: inspect authorization."""

from __future__ import annotations

from sampan.kubectl.command import KubectlGroup
from sampan.kubectl.commands.auth import can_i, reconcile, whoami

command = KubectlGroup(
    "auth",
    help="Inspect authorization: what the current user may do, and who that is.",
    commands=[can_i.command, reconcile.command, whoami.command],
)
