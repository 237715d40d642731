"""A start waits for an owner of the data directory that is ending, and `down` for the end of the process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.cli.local_cluster import owner_process
from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.cli.local_cluster.owner_process import acquire_lock, is_exiting, wait_for_exit, watched_exit
from sampan.machinery.cli_errors import CliError
from tests.cli.command import Sampan
from tests.eventually import wait_until
from tests.ports import free_port

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def where(tmp_path: Path) -> ClusterDir:
    (tmp_path / "pki").mkdir()
    (tmp_path / "lock").touch()
    return ClusterDir(tmp_path)


@pytest.fixture
def holder(where: ClusterDir) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its standard input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(where.path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def write_note(where: ClusterDir, pid: int, port: int) -> None:
    note = {"pid": pid, "name": "sampan", "url": f"https://127.0.0.1:{port}"}
    (where.path / "running.json").write_text(json.dumps(note))


def test_a_start_waits_for_an_owner_that_is_ending(
    where: ClusterDir, holder: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its API server no longer accepts connections, but the process is still there."""
    write_note(where, holder.pid, free_port())
    texts: list[str] = []

    def read_errors() -> str:
        texts.append(capsys.readouterr().err)
        return "".join(texts)

    def end_owner() -> None:
        wait_until(lambda: "\n" in read_errors())
        holder.kill()

    thread = threading.Thread(target=end_owner)
    thread.start()
    lock = acquire_lock(where)
    thread.join()
    lock.release()
    assert read_errors() == f"waiting for process {holder.pid} to end, which still uses {where.path}\n"


def test_a_start_refuses_at_once_if_the_owner_serves(where: ClusterDir, holder: subprocess.Popen[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        write_note(where, holder.pid, server.getsockname()[1])
        with pytest.raises(CliError, match=f"is in use by process {holder.pid} at https://127"):
            acquire_lock(where)


def test_a_free_lock_is_acquired(where: ClusterDir) -> None:
    write_note(where, 1, 1)
    acquire_lock(where).release()


def test_zombies_and_running_processes_are_not_exiting() -> None:
    assert not is_exiting(os.getpid())
    assert not is_exiting(1 << 22)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert wait_for_exit(pid, 60), "a process that nobody has reaped has exited"
    assert not is_exiting(pid)
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("state", "flags", "threads", "pending", "expected"),
    [
        ("R", 0, 1, 0, False),
        ("D", 0, 1, 0x100, True),
        ("R", 4, 1, 0, True),
        ("S", 0, 1, 0x4000, False),
        ("Z", 4, 1, 0x100, False),
        ("Z", 4, 2, 0x100, True),
    ],
    ids=[
        "running",
        "killed in an uninterruptible call",
        "exiting",
        "SIGTERM is pending",
        "zombie",
        "first thread is a zombie",
    ],
)
def test_a_process_that_was_killed_is_exiting(
    monkeypatch: pytest.MonkeyPatch, state: str, flags: int, threads: int, pending: int, expected: bool
) -> None:
    files = {
        "stat": f"7 (a) b) {state} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 5",
        "status": f"Name:\ta\nSigPnd:\t{0:016x}\nShdPnd:\t{pending:016x}\n",
    }
    monkeypatch.setattr(owner_process, "_text", lambda pid, name: files[name])
    assert is_exiting(7) == expected


def test_end_of_a_killed_process_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with watched_exit(process.pid) as wait:
            assert not wait(0)
            process.send_signal(signal.SIGKILL)
            assert wait(60)
        process.wait()
    assert wait_for_exit(process.pid, 0), "there is no such process any more"


def test_up_directly_after_kill_starts_and_down_returns_when_the_port_is_free(sampan: Sampan) -> None:
    port = free_port()
    words = ("up", "-d", "--components", "apiserver", "--bind-address", "127.0.0.1", "--secure-port", str(port))
    sampan(*words)
    for _ in range(3):
        pid = sampan.read_running_file()["pid"]
        os.kill(pid, signal.SIGKILL)
        sampan(*words)
        assert sampan.read_running_file()["pid"] != pid
    pid = sampan.read_running_file()["pid"]
    sampan("down")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    assert wait_for_exit(pid, 0)
