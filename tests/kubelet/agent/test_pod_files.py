"""The hosts file and the termination messages of pods, to which containers write."""

import os
from pathlib import Path

from sampan.kubelet.agent.pod_files import measure_pod_files

MIB = 1 << 20


def test_hosts_file_and_termination_messages_are_measured(tmp_path: Path) -> None:
    assert measure_pod_files(tmp_path / "u").disk_bytes == 0
    (tmp_path / "containers/c").mkdir(parents=True)
    (tmp_path / "etc-hosts").write_bytes(b"x" * 3 * MIB)
    (tmp_path / "containers/c/termination-log-0").write_bytes(b"y" * 2 * MIB)
    (tmp_path / "containers/c/termination-log-1").write_bytes(b"message")
    (tmp_path / "volumes").mkdir()
    (tmp_path / "volumes/large").write_bytes(b"z" * 9 * MIB)
    usage = measure_pod_files(tmp_path)
    assert 5 * MIB <= (usage.disk_bytes or 0) < 6 * MIB
    assert usage.name == ""


def test_a_termination_message_that_grows_is_truncated_to_what_is_read_of_it(tmp_path: Path) -> None:
    (tmp_path / "containers/c").mkdir(parents=True)
    large, small = (tmp_path / f"containers/c/termination-log-{number}" for number in range(2))
    large.write_bytes(b"begin" + b"x" * MIB)
    small.write_bytes(b"x" * 60_000)
    measure_pod_files(tmp_path)
    assert large.read_bytes() == b"begin" + b"x" * 4091
    assert small.stat().st_size == 60_000


def test_links_and_pipes_in_place_of_a_termination_message_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "containers/c").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"x" * MIB)
    (tmp_path / "containers/c/termination-log-0").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "containers/c/termination-log-1")
    measure_pod_files(tmp_path)
    assert (tmp_path / "outside").stat().st_size == MIB
