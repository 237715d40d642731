"""Recognize user namespaces."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sampan.host.linux import user_namespace
from sampan.host.linux.user_namespace import is_group_mapped, is_in_user_namespace

SCRIPT = """
from sampan.host.linux.user_namespace import is_group_mapped, is_in_user_namespace
print(is_in_user_namespace(), is_group_mapped(0), is_group_mapped(5))
"""
HOST = "         0          0 4294967295\n"


@pytest.mark.parametrize(
    ("id_map", "is_namespace", "mapped"),
    [
        pytest.param(HOST, False, [0, 5, 100_000], id="host"),
        pytest.param(None, False, [0, 5, 100_000], id="kernel without user namespaces"),
        pytest.param("0 1000 1\n", True, [0], id="one ID"),
        pytest.param("0 1000 1\n1 100000 65536\n", True, [0, 5], id="subordinate IDs"),
        pytest.param("0 0 65536\n", True, [0, 5], id="part of the host IDs"),
        pytest.param("5 1000 1\n", True, [5], id="no root"),
    ],
)
def test_id_maps(
    id_map: str | None, is_namespace: bool, mapped: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "id_map"
    if id_map is not None:
        path.write_text(id_map)
    monkeypatch.setattr(user_namespace, "_UID_MAP", path)
    monkeypatch.setattr(user_namespace, "_GID_MAP", path)
    assert is_in_user_namespace() is is_namespace
    assert [gid for gid in (0, 5, 100_000) if is_group_mapped(gid)] == mapped


def test_user_namespace_with_one_mapped_user_is_recognized() -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--user", "true"], check=False).returncode:
        pytest.skip("may not create user namespaces")
    argv = ["unshare", "--user", "--map-root-user", sys.executable, "-c", SCRIPT]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "True True False\n"
