"""Rotation of container logs that grow large."""

import asyncio
import gzip
import os
from pathlib import Path

import pytest

from sampan.host.clock import RealClock
from sampan.kubelet.logs.lines import LogOptions
from sampan.kubelet.logs.reader import read
from sampan.kubelet.logs.rotation import LogRotator, RotationPlan, RotationPolicy, plan_rotation, rotate
from tests.kubelet.server.process_node import plain_node, plain_pod

_WRITER = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); [ $((i % 300)) = 0 ] && sleep 0.1; done"


@pytest.mark.parametrize(
    ("names", "files", "steps"),
    [
        ([], 5, RotationPlan([], [])),
        (["l.1", "l.2.gz"], 5, RotationPlan([], ["l.1"])),
        (["l.1", "l.1.gz", "l.2.tmp"], 5, RotationPlan(["l.1", "l.2.tmp"], [])),
        (["l.1.gz", "l.2.gz", "l.3.gz", "l.4"], 5, RotationPlan(["l.1.gz"], ["l.4"])),
        (["l.1.gz", "l.2"], 2, RotationPlan(["l.1.gz", "l.2"], [])),
    ],
)
def test_older_logs_are_compressed_or_deleted(names: list[str], files: int, steps: RotationPlan) -> None:
    assert plan_rotation(names, files) == steps


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_repeated_rotation_keeps_the_newest_files(tmp_path: Path) -> None:
    path = tmp_path / "0.log"

    async def reopen() -> None:
        path.write_text("new")

    for number in range(7):
        path.write_text(f"round {number}\n")
        await rotate(path, files=4, now=float(number), reopen=reopen)
    assert _names(tmp_path) == [
        "0.log",
        "0.log.19700101-000004.gz",
        "0.log.19700101-000005.gz",
        "0.log.19700101-000006",
    ]
    assert gzip.decompress((tmp_path / "0.log.19700101-000005.gz").read_bytes()) == b"round 5\n"
    assert path.read_text() == "new"


async def test_log_is_kept_when_reopening_fails(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text("kept")

    async def reopen() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await rotate(path, files=5, now=0, reopen=reopen)
    assert _names(tmp_path) == ["0.log"]
    assert path.read_text() == "kept"


async def test_a_follower_of_a_rotated_log_misses_nothing(tmp_path: Path) -> None:
    async with asyncio.timeout(60), plain_node(tmp_path) as node:
        pod = await node.run(plain_pod("sh", "-c", f"{_WRITER}; sleep 1000"))
        runtime = node.runtime
        path = runtime.log_file(pod, "main")
        assert path is not None
        rotator = LogRotator(
            runtime=runtime,
            running=lambda: [(pod, "main")],
            clock=RealClock(),
            policy=RotationPolicy(max_bytes=10_000, files=3),
        )
        text = b""
        async for piece in read(path, LogOptions(is_following=True), is_running=lambda: True):
            text += piece
            await rotator.check()
            if text.endswith(b"line 2999\n"):
                break
        assert text == b"".join(b"line %d\n" % number for number in range(3000))
        names = _names(path.parent)
        assert names[0] == path.name
        assert 1 < len(names) <= 3


@pytest.mark.parametrize("kind", ["pipe", "link"])
async def test_a_pipe_or_a_link_in_place_of_an_older_log_is_removed_unread(tmp_path: Path, kind: str) -> None:
    """Opening a pipe would block a thread of the kubelet for ever, and a link would disclose a file of the node."""
    logs, secret = tmp_path / "logs", tmp_path / "secret"
    logs.mkdir()
    secret.write_text("secret")
    path, older = logs / "0.log", logs / "0.log.19700101-000001"
    path.write_text("text")
    os.mkfifo(older) if kind == "pipe" else older.symlink_to(secret)

    async def reopen() -> None:
        path.write_text("new")

    await rotate(path, files=4, now=5.0, reopen=reopen)
    assert _names(logs) == ["0.log", "0.log.19700101-000005"]
    assert secret.read_text() == "secret"
