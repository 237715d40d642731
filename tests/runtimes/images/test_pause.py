"""The pause program and its image."""

import json
import os
import platform
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from sampan.runtimes.images import pause
from sampan.runtimes.images.bundles import write_docker_archive
from tests.eventually import wait_until


@pytest.mark.skipif(not pause.is_built_in(), reason=f"there is no pause program for {platform.machine()}")
def test_pause_program_waits_and_ignores_sigchld(tmp_path: Path) -> None:
    with started_pause(tmp_path) as process:
        assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.skipif(not pause.is_built_in(), reason=f"there is no pause program for {platform.machine()}")
def test_pause_program_exits_when_it_is_asked_to(tmp_path: Path, number: signal.Signals) -> None:
    """A container of the pause image is stopped at once, and not after its grace period."""
    with started_pause(tmp_path) as process:
        os.kill(process.pid, signal.SIGWINCH)  # is ignored
        os.kill(process.pid, signal.SIGSTOP)  # interrupts the wait
        os.kill(process.pid, signal.SIGCONT)
        os.kill(process.pid, number)
        assert process.wait(60) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a PID namespace")
@pytest.mark.skipif(not pause.is_built_in(), reason=f"there is no pause program for {platform.machine()}")
def test_pause_program_exits_as_the_first_process_of_a_pid_namespace(tmp_path: Path) -> None:
    with started_pause(tmp_path, "unshare", "--pid", "--fork", "--kill-child") as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: children.read_text().strip())
        pid = int(children.read_text())
        wait_until(lambda: is_waiting(pid))
        os.kill(pid, signal.SIGTERM)
        assert process.wait(60) == 0


@contextmanager
def started_pause(directory: Path, *launcher: str) -> Iterator[subprocess.Popen[bytes]]:
    path = directory / "pause"
    path.write_bytes(pause.program())
    path.chmod(0o755)
    with subprocess.Popen([*launcher, path]) as process:
        try:
            if not launcher:
                wait_until(lambda: is_waiting(process.pid))
            yield process
        finally:
            process.kill()


def is_waiting(pid: int) -> bool:
    """Whether the process ignores SIGCHLD and sleeps."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = {name: value.split() for name, _, value in (row.partition(":") for row in rows)}
    return values["State"][0] == "S" and bool(int(values["SigIgn"][0], 16) & 1 << signal.SIGCHLD - 1)


@pytest.mark.parametrize(("architecture", "machine"), [("amd64", 62), ("arm64", 183)])
def test_pause_program_is_an_elf_file(architecture: str, machine: int) -> None:
    data = pause.program(architecture)
    assert data[:4] == b"\x7fELF"
    assert int.from_bytes(data[18:20], "little") == machine


def test_pause_image_is_a_docker_archive() -> None:
    out = BytesIO()
    write_docker_archive(pause.bundle("a:1"), out)
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        file = archive.extractfile("manifest.json")
        assert file is not None
        (row,) = json.loads(file.read())
    assert (row["RepoTags"], row["Layers"]) == (["a:1"], ["layer-0.tar"])
