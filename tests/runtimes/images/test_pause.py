"""The pause program and its image."""

import json
import platform
import signal
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from sampan.runtimes.images import pause
from sampan.runtimes.images.bundles import write_docker_archive
from tests.eventually import wait_until


@pytest.mark.skipif(not pause.is_built_in(), reason=f"there is no pause program for {platform.machine()}")
def test_pause_program_waits_and_ignores_sigchld(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    path.write_bytes(pause.program())
    path.chmod(0o755)
    with subprocess.Popen([path]) as process:
        try:
            wait_until(lambda: ignored_signals(process.pid) & 1 << signal.SIGCHLD - 1)
            assert process.poll() is None
        finally:
            process.kill()
        assert process.wait() == -signal.SIGKILL


def ignored_signals(pid: int) -> int:
    """Return the bit mask of the signals that a process ignores."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(row.split()[1] for row in status if row.startswith("SigIgn:")), 16)


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
