"""Hostile images, pulled from a registry and run by a real runtime."""

import asyncio
import json
import os
import stat
import tarfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Container
from sampan.host.clock import RealClock
from sampan.runtimes import kernel
from sampan.runtimes.config import ContainerSecurity, Mount
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.images import ImageStore, mounts
from sampan.runtimes.images.host import host_root
from sampan.runtimes.images.layers import LayerStore
from sampan.runtimes.images.mounts import unmount_all
from sampan.runtimes.images.pull import ImagePuller
from tests.runtimes import engines, registry
from tests.runtimes.images.builders import MadeImage, busybox_with, digest, set_diff_ids, special_file
from tests.runtimes.oci.oci_node import POD, PROGRAMS, Node, shell

pytestmark = pytest.mark.skipif(
    bool(engines.missing_requirement()) or not PROGRAMS, reason=engines.missing_requirement() or "needs crun or runc"
)


class PullingNode(Node):
    def __init__(self, directory: Path) -> None:
        self.puller = ImagePuller(store=ImageStore(directory / "images"), clock=RealClock())
        super().__init__(directory, self.puller)

    async def pull(self, image: MadeImage) -> str:
        """Pull the image from a registry that serves it, and return its name."""
        with registry.serving(image, "team/app", "1") as address:
            name = f"{address}/team/app:1"
            await self.runtime.pull_image(POD, Container(name="c", image=name), None)
        return name


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[PullingNode]:
    pulling_node = PullingNode(directory)
    async with pulling_node.puller, pulling_node.runtime:
        try:
            await pulling_node.runtime.run_sandbox(POD, pulling_node.sandbox())
            yield pulling_node
        finally:
            await pulling_node.runtime.shut_down()


def run_with_node(directory: Path, work: Callable[[PullingNode], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(150), node(directory) as pulling_node:
            await work(pulling_node)

    asyncio.run(main())


@contextmanager
def row(name: str) -> Iterator[None]:
    """Add the name of the row of a table, all of which one node serves, to an error of the block."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"row: {name}")
        raise


def test_an_image_whose_layer_digest_is_a_host_path_is_refused(tmp_path: Path) -> None:
    async def work(n: PullingNode) -> None:
        for diff_id in ("sha256:/etc", "sha256:../../pki", "sha256:", "/etc", "sha256:" + "A" * 64):
            with row(diff_id):
                with pytest.raises(RuntimeFailure, match="not a digest"):
                    await n.pull(set_diff_ids(busybox_with({}), diff_id))
                assert [image.id for image in await n.runtime.images()] == ["sampan.local/host@own"]

    run_with_node(tmp_path, work)


def test_an_image_volume_whose_layer_digest_is_a_host_path_is_refused(tmp_path: Path) -> None:
    """An earlier version may have accepted such an image into the store."""

    async def work(n: PullingNode) -> None:
        good = await n.pull(busybox_with({}))
        bad = set_diff_ids(MadeImage({"x": b"1"}), "sha256:/etc")
        store = ImageStore(n.directory / "images")
        for data in bad.blobs.values():
            store.blobs.put(data)
        table = json.loads((n.directory / "images/images.json").read_bytes())
        table[bad.digest] = {"names": ["docker.io/library/evil:1"], "digests": [], "added": 0}
        (n.directory / "images/images.json").write_text(json.dumps(table))
        volume = Mount(source=Path("/"), target="/evil", image="evil:1", is_read_only=True)
        with pytest.raises(RuntimeFailure, match="not a digest"):
            await n.start(*shell("cat /evil/shadow"), image=good, image_ref="", mounts=[volume])
        assert good in [name for image in await n.runtime.images() for name in image.names]
        store.remove("evil:1")
        assert not store.has("evil:1")

    run_with_node(tmp_path, work)


def test_naming_the_layer_of_a_private_image_gives_no_access_to_its_files(tmp_path: Path) -> None:
    """The digest of a private layer is no secret, and must not give access to its content."""

    async def work(n: PullingNode) -> None:
        private = busybox_with({"secret": b"private"})
        name = await n.pull(private)
        assert await n.run(*shell("cat /secret"), image=name, image_ref="") == (0, ["private"])
        hostile = set_diff_ids(busybox_with({"other": b""}), digest(private.plain[0]))
        stolen = await n.pull(hostile)
        with pytest.raises(RuntimeFailure, match="unpacks to"):
            await n.start(*shell("cat /secret"), image=stolen, image_ref="", attempt=1)
        again = await n.pull(busybox_with({"secret": b"private"}))
        assert await n.run(*shell("cat /secret"), image=again, image_ref="", attempt=2) == (
            0,
            ["private"],
        )

    run_with_node(tmp_path, work)


IRREGULAR_FILES: dict[str, tuple[Any, str]] = {
    "pipe": (tarfile.FIFOTYPE, "is a named pipe"),
    "device": (tarfile.CHRTYPE, "is a character device"),
    "directory": (tarfile.DIRTYPE, "is a directory"),
    "huge": (b"x" * ((1 << 20) + 1), "is larger than"),
    "circle": ("passwd2", "too many levels of symbolic links"),
}


@pytest.mark.parametrize("file", ["passwd", "group"])
def test_image_with_an_irregular_etc_passwd_does_not_block_the_node(tmp_path: Path, file: str) -> None:
    """Each of many such containers would otherwise block one of the few threads of the executor."""

    async def work(n: PullingNode) -> None:
        attempts = count()
        for kind, (content, message) in IRREGULAR_FILES.items():
            with row(kind):
                entry = special_file(f"etc/{file}", content) if kind in ("pipe", "device", "directory") else content
                files = {"etc/passwd": b"app:x:1000:1000::/:/bin/sh\n", f"etc/{file}": entry, "etc/passwd2": file}
                name = await n.pull(busybox_with(files, User="app:staff" if file == "group" else "app"))
                starts = [n.start(*shell("id"), image=name, image_ref="", attempt=next(attempts)) for _ in range(12)]
                outcomes = await asyncio.wait_for(asyncio.gather(*starts, return_exceptions=True), 60)
                failures = [outcome for outcome in outcomes if isinstance(outcome, RuntimeFailure)]
                assert [message in str(failure) for failure in failures] == [True] * 12, outcomes
                assert (await n.run("/bin/true", attempt=next(attempts)))[0] == 0

    run_with_node(tmp_path, work)


def test_etc_passwd_of_an_image_may_be_a_link_within_the_image_only(tmp_path: Path) -> None:
    async def work(n: PullingNode) -> None:
        inside = busybox_with(
            {"usr/etc/passwd": b"app:x:1234:55::/:/bin/sh\n", "etc/passwd": "/usr/etc/passwd"}, User="app"
        )
        assert await n.run(*shell("id -u; id -g"), image=await n.pull(inside), image_ref="") == (0, ["1234", "55"])
        (n.directory / "passwd").write_text("app:x:0:0::/:/bin/sh\n")
        outside = busybox_with({"etc/passwd": f"../../../../../../../..{n.directory}/passwd"}, User="app")
        with pytest.raises(RuntimeFailure, match="unable to find user app"):
            await n.start(*shell("id"), image=await n.pull(outside), image_ref="", attempt=1)

    run_with_node(tmp_path, work)


def test_run_as_non_root_rejects_every_spelling_of_root(tmp_path: Path) -> None:
    """The kubelet rejects most of them before; the runtime checks the resolved user ID."""

    async def work(n: PullingNode) -> None:
        for attempt, user in enumerate(("00", "+0", "-0", "0:0", "000000", "", "toor")):
            with row(repr(user)):
                name = await n.pull(busybox_with({"etc/passwd": b"toor:x:0:0::/:/bin/sh\n"}, User=user))
                security = ContainerSecurity(must_not_be_root=True)
                with pytest.raises(RuntimeFailure, match="image will run as root"):
                    await n.start(*shell("id"), image=name, image_ref="", security=security, attempt=attempt)

    run_with_node(tmp_path, work)


def test_a_user_id_out_of_range_is_never_looked_up_as_a_name(tmp_path: Path) -> None:
    async def work(n: PullingNode) -> None:
        for attempt, user in enumerate(("4294967296", "2147483648", "-1", "9" * 5000)):
            with row(user[:20]):
                name = await n.pull(busybox_with({"etc/passwd": f"{user}:x:0:0::/:/bin/sh\n".encode()}, User=user))
                with pytest.raises(RuntimeFailure, match="out of range"):
                    await n.start(*shell("id"), image=name, image_ref="", attempt=attempt)

    run_with_node(tmp_path, work)


def test_unpacked_setuid_programs_are_inaccessible_to_other_users(tmp_path: Path) -> None:
    async def work(n: PullingNode) -> None:
        member = tarfile.TarInfo("bin/su")
        member.mode = 0o4755
        name = await n.pull(busybox_with({"bin/su": member}))
        await n.start("/bin/sh", "-c", "read x", image=name, image_ref="", has_stdin=True)
        [layers] = (n.directory / "images").glob("layers")
        [container] = (n.directory / "node/pods/u1/c").iterdir()
        assert stat.S_IMODE(layers.stat().st_mode) == 0o700
        assert stat.S_IMODE(container.stat().st_mode) == 0o700

    run_with_node(tmp_path, work)


IO_URING = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(425, 1, ctypes.create_string_buffer(256)), ctypes.get_errno())
print(libc.personality(ctypes.c_ulong(0xFFFFFFFF)) >= 0, libc.personality(0x0400000), ctypes.get_errno())
print(libc.unshare(0x10000000), ctypes.get_errno())
try:
    socket.socket(40, socket.SOCK_STREAM)
except OSError as error:
    print(error.errno)
import subprocess, threading
thread = threading.Thread(target=lambda: print("thread"))
thread.start(); thread.join()
print(subprocess.run(["sort"], input="b\\na\\n", capture_output=True, text=True).stdout.split())
"""


def test_the_default_seccomp_profile_runs_ordinary_programs_and_refuses_io_uring(tmp_path: Path) -> None:
    async def work(n: PullingNode) -> None:
        profile = ContainerSecurity(seccomp=replace(ContainerSecurity().seccomp, type="RuntimeDefault"))
        script = "date +%Y >/dev/null && printf 'b\\na\\n' | sort && ls / >/dev/null && sleep 0.01 && echo done"
        assert await n.run(*shell(script), security=profile) == (0, ["a", "b", "done"])
        code, lines = await n.run("/usr/bin/python3", "-c", IO_URING, security=profile, attempt=1)
        assert code == 0
        assert lines == ["-1 1", "True -1 1", "-1 1", "1", "thread", "['a', 'b']"]
        allowed = replace(profile, added=["SYS_ADMIN"])
        _, lines = await n.run(*shell("unshare -U true && echo may"), security=allowed, attempt=2)
        assert lines == ["may"]

    run_with_node(tmp_path, work)


def test_host_image_gives_no_access_to_private_files(tmp_path: Path) -> None:
    """This includes files that are created while the pod runs, and pods with all capabilities."""
    secret, shown = (Path("/usr/local") / f"sampan-{tmp_path.name}-{kind}" for kind in ("secret", "shown"))

    async def work(n: PullingNode) -> None:
        security = ContainerSecurity(added=["ALL"])
        await n.start("/bin/sh", "-c", "read x", has_stdin=True, security=security)
        try:
            secret.touch(0o600)
            secret.write_text("private")
            shown.write_text("public")
            shown.chmod(0o644)
            code, out, err = await n.exec("/bin/cat", str(secret))
            assert (code, out) == (1, b"")
            assert b"Permission denied" in err
            assert (await n.exec("/bin/cat", str(shown)))[:2] == (0, b"public")
            code, out, _ = await n.exec("/bin/sh", "-c", f"chmod 644 {secret}; cat {secret}")
            assert (code, out) == (1, b"")
        finally:
            secret.unlink(missing_ok=True)
            shown.unlink(missing_ok=True)

    run_with_node(tmp_path, work)


def test_private_files_are_omitted_without_id_mapped_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On file systems without id-mapped mounts, files that are private at the time of the mount are omitted."""

    def refuse(source: Path, target: Path, namespace: object) -> None:
        raise OSError("not supported")

    machine = tmp_path / "machine"
    for place in ("usr/bin", "usr/local/etc", "usr/local/lib/private"):
        (machine / place).mkdir(parents=True)
    for place in ("usr/local/etc/key", "usr/local/lib/open", "usr/local/lib/private/x", "usr/local/lib/secret"):
        (machine / place).write_text("private")
    (machine / "usr/local/lib/private").chmod(0o700)
    (machine / "usr/local/lib/secret").chmod(0o600)
    monkeypatch.setattr(kernel, "bind_without_owners", refuse)
    container = tmp_path / "container"
    root = mounts.mount_host(host_root(tmp_path / "host", machine), container)
    try:
        assert sorted(os.listdir(root / "usr/local/lib")) == ["open", "private"]
        assert os.listdir(root / "usr/local/lib/private") == []
        assert os.listdir(root / "usr/local/etc") == []
        (machine / "usr/local/etc/later").write_text("private")
        assert os.listdir(root / "usr/local/etc") == []
    finally:
        unmount_all(container)


def test_slow_unpacking_does_not_block_other_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slow image would otherwise block one of the few threads of the process."""
    may_continue, unpack = threading.Event(), LayerStore._unpack

    def slow(self: LayerStore, blob: Path, diff_id: str, target: Path) -> None:
        may_continue.wait(120)
        unpack(self, blob, diff_id, target)

    monkeypatch.setattr(LayerStore, "_unpack", slow)

    async def work(n: PullingNode) -> None:
        name = await n.pull(busybox_with({}))
        try:
            starts = [
                asyncio.create_task(n.start("/bin/sh", "-c", ":", image=name, image_ref="", attempt=number))
                for number in range(1, 16)
            ]
            assert await asyncio.wait_for(n.run(*shell("echo here"), attempt=50), 60) == (0, ["here"])
            assert not any(task.done() for task in starts)
        finally:
            may_continue.set()
        await asyncio.gather(*starts)

    run_with_node(tmp_path, work)


def test_layer_with_a_long_chain_of_links_is_rejected_and_not_kept(tmp_path: Path) -> None:
    async def work(n: PullingNode) -> None:
        files: dict[str, Any] = {f"l{number}": f"l{number + 1}" for number in range(60)}
        name = await n.pull(MadeImage({**files, "l0/x": b"1"}))
        with pytest.raises(RuntimeFailure, match="symbolic links"):
            await n.start("/x", image=name, image_ref="")
        assert [path.name for path in (n.directory / "images/layers").iterdir() if not path.name.startswith(".")] == []

    run_with_node(tmp_path, work)
