"""The system calls that a container with the runtime's own profile may not make. Data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_NEEDS: dict[str, tuple[str, ...]] = {
    "": (
        *("_sysctl", "add_key", "create_module", "get_kernel_syms", "keyctl", "move_pages", "nfsservctl"),
        *("query_module", "request_key", "sysfs", "uselib", "userfaultfd", "ustat", "vm86", "vm86old"),
    ),
    "SYS_ADMIN": (
        *(
            "bpf",
            "fanotify_init",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "lookup_dcookie",
            "mount",
            "mount_setattr",
        ),
        *("move_mount", "open_tree", "perf_event_open", "pivot_root", "quotactl", "quotactl_fd", "setdomainname"),
        *("sethostname", "setns", "swapoff", "swapon", "umount", "umount2", "unshare"),
    ),
    "SYS_BOOT": ("kexec_file_load", "kexec_load", "reboot"),
    "SYS_MODULE": ("delete_module", "finit_module", "init_module"),
    "SYS_PACCT": ("acct",),
    "SYS_PTRACE": ("kcmp", "process_madvise", "process_vm_readv", "process_vm_writev"),
    "SYS_RAWIO": ("ioperm", "iopl"),
    "SYS_TIME": ("clock_adjtime64", "clock_settime", "clock_settime64", "settimeofday", "stime"),
    "SYS_NICE": ("get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"),
    "DAC_READ_SEARCH": ("open_by_handle_at",),
    "SYSLOG": ("syslog",),
}
"""By the capability that gives them back."""
_NEW_NAMESPACES = (17, 25, 26, 27, 28, 29, 30)
"""Bits of clone's flags that make namespaces."""
_EPERM, _ENOSYS = 1, 38


def default_profile(capabilities: Collection[str]) -> dict[str, Any]:
    """As the runtime specification has it: everything is allowed but what is named."""
    refused = [
        name
        for capability, names in _NEEDS.items()
        if not capability or capability not in capabilities
        for name in names
    ]
    rules: list[dict[str, Any]] = [{"names": sorted(refused), "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM}]
    if "SYS_ADMIN" not in capabilities:
        rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS})
        for bit in _NEW_NAMESPACES:
            asked = {"index": 0, "value": 1 << bit, "valueTwo": 1 << bit, "op": "SCMP_CMP_MASKED_EQ"}
            rules.append({"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM, "args": [asked]})
    return {"defaultAction": "SCMP_ACT_ALLOW", "architectures": _ARCHITECTURES, "syscalls": rules}


_ARCHITECTURES = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32", "SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]

__all__ = ["default_profile"]
