"""Linux capabilities of containers: the default set, and how a security context changes it."""

from __future__ import annotations

from collections.abc import Sequence

ALL = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
DEFAULT = (
    *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
    *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
)


EVERY = -1
"""A bit set with all capabilities."""


def effective(
    added: Sequence[str], dropped: Sequence[str], *, is_privileged: bool, last: int, held: int = EVERY
) -> list[str]:
    """Return the capabilities of a container. `last` is the number of the last capability that the kernel knows. `held`
    is the bit set of Sampan's own capabilities, which are the only ones it can pass on; others are omitted unless the
    security context names them."""
    known = [name for number, name in enumerate(ALL[: last + 1]) if held >> number & 1]
    if is_privileged:
        return known
    capabilities = set(DEFAULT) & set(known)
    plus, minus = {_name(capability) for capability in added}, {_name(capability) for capability in dropped}
    if "ALL" in plus:
        capabilities |= set(known)
    if "ALL" in minus:
        capabilities = set()
    capabilities = (capabilities | (plus - {"ALL"})) - (
        minus - {"ALL"} if "ALL" not in minus else minus - plus - {"ALL"}
    )
    return [name for name in ALL[: last + 1] if name in capabilities]


def _name(text: str) -> str:
    return text.upper().removeprefix("CAP_")
