"""Records of sandboxes and containers on disk."""

import os
from pathlib import Path

import pytest

from sampan.runtimes import contract
from sampan.runtimes.records import ContainerRecord, PodRecords


@pytest.mark.parametrize(("state", "is_synced"), [(contract.RUNNING, False), (contract.EXITED, True)])
def test_exit_of_a_container_survives_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, is_synced: bool
) -> None:
    """What is synced cannot be had again: the exit code. A running container does not survive the power failure."""
    syncs: list[int] = []
    monkeypatch.setattr(os, "fsync", syncs.append)
    records = PodRecords(tmp_path)
    record = ContainerRecord(
        id="c1", name="c", attempt=3, image="i", image_ref="r", created_at=1, log_path="", state=state, exit_code=7
    )
    records.save_container("u", record)
    assert bool(syncs) == is_synced
    assert [(kept.id, kept.attempt, kept.exit_code) for kept in records.containers("u")] == [("c1", 3, 7)]
