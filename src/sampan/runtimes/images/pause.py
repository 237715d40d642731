"""The image of the pause container, which holds the namespaces of a pod and reaps orphaned processes (`build/pause`).

It is generated here, as the machine may have no access to a registry: one file, a program of two dozen instructions. It
ignores SIGCHLD, so that the kernel reaps its children, blocks SIGINT and SIGTERM, waits until one of them is pending,
and exits. A handler would need code for the return from it, and without either the first process of a PID namespace
does not receive these signals at all.

The program is assembled by hand from the instruction encodings in the comments: x86-64 as bytes, arm64 as 32-bit words
with the immediates of MOVZ, ADR and TBNZ computed below. To check it, write `program("arm64")` to a file and run
`objdump -d` on it. The test runs it on the architecture of the machine.
"""

from __future__ import annotations

import io
import struct
import tarfile

from sampan.runtimes.images import bundles
from sampan.runtimes.images.bundles import ImageBundle
from sampan.runtimes.images.manifests import detect_platform

NAME = "sampan.local/pause:2"
"""The tag changes with the program, as engines keep an image that they have."""
_BASE = 0x400000
_HEAD = 64 + 56
_IGNORED = struct.pack("<QQQQ", 1, 0, 0, 0)
"""The kernel's struct sigaction: SIG_IGN, no flags, no restorer, no mask."""
_TERMINATION = struct.pack("<Q", 1 << 1 | 1 << 14)
"""The kernel's set of SIGINT and SIGTERM."""


def _x86_64() -> bytes:
    start = b"".join(
        (
            b"\xb8\x0d\x00\x00\x00",  # mov eax, 13 (rt_sigaction)
            b"\xbf\x11\x00\x00\x00",  # mov edi, 17 (SIGCHLD)
            b"\x48\x8d\x35\x37\x00\x00\x00",  # lea rsi, [rip + 55] (the action below)
            b"\x31\xd2",  # xor edx, edx
            b"\x41\xba\x08\x00\x00\x00",  # mov r10d, 8
            b"\x0f\x05",  # syscall
            b"\xb8\x0e\x00\x00\x00",  # mov eax, 14 (rt_sigprocmask)
            b"\x31\xff",  # xor edi, edi (SIG_BLOCK)
            b"\x48\x8d\x35\x3f\x00\x00\x00",  # lea rsi, [rip + 63] (the set below)
            b"\x0f\x05",  # syscall
            b"\xb8\x80\x00\x00\x00",  # mov eax, 128 (rt_sigtimedwait)
            b"\x48\x8d\x3d\x31\x00\x00\x00",  # lea rdi, [rip + 49] (the set below)
            b"\x31\xf6",  # xor esi, esi
            b"\x0f\x05",  # syscall
            b"\x85\xc0",  # test eax, eax
            b"\x78\xec",  # js to mov eax, 128 (another signal interrupted the wait)
            b"\x31\xff",  # xor edi, edi
            b"\xb8\xe7\x00\x00\x00",  # mov eax, 231 (exit_group)
            b"\x0f\x05",  # syscall
        )
    )
    return start + _IGNORED + _TERMINATION


def _aarch64() -> bytes:
    def mov(register: int, value: int) -> int:
        return 0xD2800000 | value << 5 | register

    svc, adr, tbnz_sign = 0xD4000001, 0x10000000, 0xB7F80000
    ignore = [mov(8, 134), mov(0, 17), 0, mov(2, 0), mov(3, 8), svc]  # rt_sigaction
    block = [mov(8, 135), mov(0, 0), 0, mov(2, 0), mov(3, 8), svc]  # rt_sigprocmask
    wait = [mov(8, 137), 0, mov(1, 0), mov(2, 0), mov(3, 8), svc]  # rt_sigtimedwait
    wait.append(tbnz_sign | (-len(wait) & 0x3FFF) << 5)  # back to its start: another signal interrupted the wait
    leave = [mov(8, 94), mov(0, 0), svc]  # exit_group
    words = [*ignore, *block, *wait, *leave]
    action, mask = len(words), len(words) + len(_IGNORED) // 4
    for place, register, target in ((2, 1, action), (len(ignore) + 2, 1, mask), (len(ignore + block) + 1, 0, mask)):
        words[place] = adr | (target - place) << 5 | register
    return struct.pack(f"<{len(words)}I", *words) + _IGNORED + _TERMINATION


_CODE = {"amd64": (62, _x86_64), "arm64": (183, _aarch64)}
"""The ELF machine number and the program of each architecture."""


def is_built_in(architecture: str = "") -> bool:
    return (architecture or detect_platform().architecture) in _CODE


def program(architecture: str = "") -> bytes:
    """Return the program as a complete ELF file."""
    machine, code = _CODE[architecture or detect_platform().architecture]
    text = code()
    size = _HEAD + len(text)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, _BASE + _HEAD, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return ident + head + segment + text


def bundle(name: str = NAME) -> ImageBundle:
    return bundles.single_layer_bundle(name, {"Entrypoint": ["/pause"], "User": "65535:65535"}, _layer())


def _layer() -> bytes:
    out, content = io.BytesIO(), program()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("pause")
        member.size, member.mode = len(content), 0o755
        archive.addfile(member, io.BytesIO(content))
    return out.getvalue()
