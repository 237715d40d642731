"""The seccomp profile RuntimeDefault.

It is an allow list like those of containerd and Docker: a system call that a later kernel adds is denied until it is
listed here. io_uring is not allowed, as it bypasses the other rules. Unlike theirs, the list omits socketcall, through
which 32-bit programs could create the AF_VSOCK sockets that are denied otherwise; C libraries have not needed
socketcall since Linux 4.3.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sampan.runtimes.images.manifests import detect_platform

_ALLOWED_SYSCALLS_TEXT: Final = """
    accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown chown32
    clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep
    clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2 dup3 epoll_create
    epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2
    execve execveat exit exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark fchdir
    fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork
    fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex
    futex_requeue futex_time64 futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area
    getcpu getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32
    getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid
    getresuid32 getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getuid32 getxattr
    getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
    io_pgetevents io_pgetevents_time64 io_setup io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule
    landlock_create_ruleset landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listxattr
    listxattrat llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 madvise map_shadow_stack
    membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2
    mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend
    mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap
    name_to_handle_at nanosleep newfstatat _newselect open openat openat2 pause pidfd_open pidfd_send_signal
    pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64
    process_mrelease process_vm_readv process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev
    pwritev2 read readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg
    remap_file_pages removexattr removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction
    rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
    rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity
    sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64
    sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget
    semop semtimedop semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list
    set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups
    setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32
    setreuid setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr setxattrat shmat shmctl shmdt
    shmget shutdown sigaltstack signalfd signalfd4 sigprocmask sigreturn socketpair splice stat stat64 statfs
    statfs64 statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create
    timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create
    timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate truncate64
    ugetrlimit umask uname unlink unlinkat utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid
    waitpid write writev
"""
ALLOWED_SYSCALLS: Final = tuple(_ALLOWED_SYSCALLS_TEXT.split())
SYSCALLS_BY_CAPABILITY: Final = {
    "SYS_ADMIN": (
        *("bpf", "clone", "clone3", "fanotify_init", "fsconfig", "fsmount", "fsopen", "fspick", "listmount"),
        *("lookup_dcookie", "mount", "mount_setattr", "move_mount", "open_tree", "open_tree_attr", "perf_event_open"),
        *("quotactl", "quotactl_fd", "setdomainname", "sethostname", "setns", "statmount", "syslog", "umount"),
        *("umount2", "unshare"),
    ),
    "SYS_BOOT": ("reboot",),
    "SYS_CHROOT": ("chroot",),
    "SYS_MODULE": ("delete_module", "finit_module", "init_module"),
    "SYS_PACCT": ("acct",),
    "SYS_PTRACE": ("kcmp", "pidfd_getfd", "process_madvise"),
    "SYS_RAWIO": ("ioperm", "iopl"),
    "SYS_TIME": ("clock_settime", "clock_settime64", "settimeofday", "stime"),
    "SYS_TTY_CONFIG": ("vhangup",),
    "SYS_NICE": ("get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"),
    "DAC_READ_SEARCH": ("open_by_handle_at",),
    "SYSLOG": ("syslog",),
    "BPF": ("bpf",),
    "PERFMON": ("perf_event_open",),
}
SYSCALLS_BY_ARCHITECTURE: Final = {
    "amd64": ("arch_prctl", "modify_ldt"),
    "arm64": ("arm_fadvise64_64", "arm_sync_file_range", "breakpoint", "cacheflush", "set_tls", "sync_file_range2"),
}
_ARCHITECTURES: Final = {
    "amd64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "arm64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
}
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""The allowed arguments of personality(): PER_LINUX and PER_LINUX32, each also with the flag UNAME26, and the query."""
_NEW_NAMESPACES: Final = 0x7E020000
"""The flags of clone() that create namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_AF_VSOCK: Final = 40
_EPERM, _ENOSYS = 1, 38


def default_profile(capabilities: Collection[str], architecture: str = "") -> dict[str, Any]:
    """Return the profile in the format of the OCI runtime specification. Some system calls are allowed only with a
    capability. The kernel requires that capability anyway in the initial user namespace, but not in a user namespace
    created by the caller."""
    machine = architecture or detect_platform().architecture
    names = {*ALLOWED_SYSCALLS, *SYSCALLS_BY_ARCHITECTURE.get(machine, ())}
    for capability in capabilities:
        names |= set(SYSCALLS_BY_CAPABILITY.get(capability, ()))
    rules = [_allow_syscalls(*sorted(names)), _allow_syscalls("socket", index=0, op="SCMP_CMP_NE", value=_AF_VSOCK)]
    rules += [
        _allow_syscalls("personality", index=0, op="SCMP_CMP_EQ", value=personality) for personality in _PERSONALITIES
    ]
    if "SYS_ADMIN" not in capabilities:
        rules.append(_allow_syscalls("clone", index=0, op="SCMP_CMP_MASKED_EQ", value=_NEW_NAMESPACES, valueTwo=0))
        # seccomp cannot inspect the flags of clone3, which are in memory. On ENOSYS C libraries fall back to clone.
        rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS})
    profile: dict[str, Any] = {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": _EPERM, "syscalls": rules}
    if machine in _ARCHITECTURES:
        profile["architectures"] = list(_ARCHITECTURES[machine])
    return profile


def _allow_syscalls(*names: str, **argument: Any) -> dict[str, Any]:
    return {"names": list(names), "action": "SCMP_ACT_ALLOW", **({"args": [argument]} if argument else {})}
