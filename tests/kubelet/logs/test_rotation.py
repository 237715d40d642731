"""Logs that grow large."""

import gzip
from pathlib import Path

import pytest

from sampan.kubelet.logs.rotation import RotationPlan, plan_rotation, rotate


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
def test_what_is_done_with_older_logs(names: list[str], files: int, steps: RotationPlan) -> None:
    assert plan_rotation(names, files) == steps


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_rounds(tmp_path: Path) -> None:
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


async def test_a_writer_that_cannot_begin_anew_keeps_its_log(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text("kept")

    async def reopen() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await rotate(path, files=5, now=0, reopen=reopen)
    assert _names(tmp_path) == ["0.log"]
    assert path.read_text() == "kept"
