"""What a machine remembers about the cluster that it joined."""

import stat
from pathlib import Path

import pytest

from sampan.cluster.join.discovery import JoinError
from sampan.cluster.join.record import JoinRecord, read_record, write_record


def test_a_record_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "join.json"
    assert read_record(path) is None
    record = JoinRecord(server="https://10.0.0.1:6443", node="machine-b", labels={"rack": "3"}, port=10260)
    write_record(path, record)
    assert read_record(path) == record
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "join.json"
    path.write_text("{")
    with pytest.raises(JoinError, match=r"join\.json"):
        read_record(path)
