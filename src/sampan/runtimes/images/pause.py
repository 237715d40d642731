"""The image of the pause container, which holds the namespaces of a pod and reaps orphaned processes (`build/pause`).

It is generated here, as the machine may have no access to a registry: one file, a program of a dozen instructions,
which ignores SIGCHLD, so that the kernel reaps its children, and sleeps forever.

The program is assembled by hand from the instruction encodings in the comments: x86-64 as bytes, arm64 as 32-bit words
with the immediates of MOVZ, ADR and B computed below. To check it, write `program("arm64")` to a file and run `objdump
-d` on it. The test runs it on the architecture of the machine and verifies that it ignores SIGCHLD and keeps waiting.
"""

from __future__ import annotations

import io
import struct
import tarfile

from sampan.runtimes.images import bundles
from sampan.runtimes.images.bundles import ImageBundle
from sampan.runtimes.images.manifests import detect_platform

NAME = "sampan.local/pause:1"
_BASE = 0x400000
_HEAD = 64 + 56
_IGNORED = struct.pack("<QQQQ", 1, 0, 0, 0)
"""The kernel's struct sigaction: SIG_IGN, no flags, no restorer, no mask."""


def _x86_64() -> bytes:
    start = b"".join(
        (
            b"\xb8\x0d\x00\x00\x00",  # mov eax, 13 (rt_sigaction)
            b"\xbf\x11\x00\x00\x00",  # mov edi, 17 (SIGCHLD)
            b"\x48\x8d\x35\x17\x00\x00\x00",  # lea rsi, [rip + 23] (the action below)
            b"\x31\xd2",  # xor edx, edx
            b"\x41\xba\x08\x00\x00\x00",  # mov r10d, 8
            b"\x0f\x05",  # syscall
            b"\xb8\x22\x00\x00\x00",  # mov eax, 34 (pause)
            b"\x0f\x05",  # syscall
            b"\xeb\xf7",  # jmp to mov eax, 34
            b"\x90\x90\x90\x90",
        )
    )
    return start + _IGNORED


def _aarch64() -> bytes:
    def mov(register: int, value: int) -> int:
        return 0xD2800000 | value << 5 | register

    svc, adr_x1 = 0xD4000001, 0x10000001
    begin = [mov(8, 134), mov(0, 17), 0, mov(2, 0), mov(3, 8), svc]  # rt_sigaction
    wait = [mov(8, 73), mov(0, 0), mov(1, 0), mov(2, 0), mov(3, 0), svc]  # ppoll of nothing
    words = [*begin, *wait, 0x14000000 | (-len(wait) & 0x3FFFFFF)]  # b to the wait
    if len(words) % 2:
        words.append(0xD503201F)  # nop
    words[2] = adr_x1 | (len(words) - 2) << 5
    return struct.pack(f"<{len(words)}I", *words) + _IGNORED


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
