"""Removal of the iptables chains that the portmap plug-in leaves behind.

All users of the plug-in share them, so that they are kept while any host port is mapped.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
from collections.abc import Iterable

_PROGRAMS = ("iptables", "ip6tables")
_PREFIX, _PORTS = "CNI-HOSTPORT-", "CNI-HOSTPORT-DNAT"
_PATIENCE_S = 60


def removal(rules: Iterable[str]) -> list[list[str]]:
    """Return the arguments of the iptables calls for the removal, from the output of `iptables -t nat -S`. Pure."""
    split_rules = [shlex.split(rule) for rule in rules if rule.strip()]
    chains = [rule[1] for rule in split_rules if rule[0] == "-N" and rule[1].startswith(_PREFIX)]
    if any(rule[:2] == ["-A", _PORTS] for rule in split_rules):
        return []
    deletions = [["-D", *rule[1:]] for rule in split_rules if rule[0] == "-A" and rule[-1] in chains]
    return [*deletions, *(["-F", chain] for chain in chains), *(["-X", chain] for chain in chains)]


def clear_portmap() -> None:
    """Remove the chains, ignoring errors."""
    for name in _PROGRAMS:
        if (program := shutil.which(name)) is not None:
            with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
                for arguments in removal(_run(program, "-S").splitlines()):
                    _run(program, *arguments)


def _run(program: str, *arguments: str) -> str:
    call = [program, "-w", "5", "-t", "nat", *arguments]
    return subprocess.run(call, capture_output=True, check=False, text=True, timeout=_PATIENCE_S).stdout
