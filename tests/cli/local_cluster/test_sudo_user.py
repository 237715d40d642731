"""Clusters that are started through sudo belong to the user who called it."""

import os
import pwd
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.local_cluster.cluster_dir import ClusterDir, list_clusters
from sampan.cli.local_cluster.cluster_registry import clusters_root
from sampan.cli.local_cluster.sudo_user import hand_over, sudo_user
from sampan.cli.main import cli

USER = 54321

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sudo is about root")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a user who calls sudo."""
    real = pwd.getpwuid
    entry = pwd.struct_passwd(("ann", "x", USER, USER, "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry if uid == USER else real(uid))
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.delenv("SAMPAN_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return tmp_path


def test_cluster_directory_and_its_readable_files_belong_to_the_sudo_user(home: Path) -> None:
    assert clusters_root() == home / ".local/share/sampan"
    cluster_dir = ClusterDir(clusters_root() / "a")
    cluster_dir.make()
    assert [path.stat().st_uid for path in (cluster_dir.path, cluster_dir.path.parent, home / ".local")] == [USER] * 3
    cluster_dir.pki.mkdir()
    read_by_commands = (
        cluster_dir.kubeconfig,
        cluster_dir.flags,
        cluster_dir.log,
        cluster_dir.version_file,
        cluster_dir.path / "lock",
    )
    for path in read_by_commands:
        path.touch(mode=0o600)
    cluster_dir.hand_over()
    assert [(path.stat().st_uid, path.stat().st_mode & 0o777) for path in read_by_commands] == [(USER, 0o600)] * 5
    assert cluster_dir.pki.stat().st_uid == 0
    assert cluster_dir in list_clusters()


def test_hand_over_does_not_change_owners_through_links(home: Path) -> None:
    secret = home / "secret"
    secret.touch()
    hard, soft, own = home / "hard", home / "soft", home / "own"
    hard.hardlink_to(secret)
    soft.symlink_to(secret)
    own.touch()
    hand_over([hard, soft, own, home / "missing"])
    assert [path.stat().st_uid for path in (secret, own)] == [0, USER]


@pytest.mark.parametrize("uid", ["", "0", "x", "-1", "4294967296000", "\u0661", "54399"])
def test_invalid_sudo_uid_is_ignored(home: Path, monkeypatch: pytest.MonkeyPatch, uid: str) -> None:
    monkeypatch.setenv("SUDO_UID", uid)
    assert sudo_user() is None


def test_down_delete_by_a_user_keeps_a_cluster_that_root_has_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster_dir = ClusterDir(clusters_root() / "a")
    cluster_dir.make()
    cluster_dir.pki.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(os, "geteuid", lambda: USER)
    (cluster_dir.path / "lock").touch()
    done = CliRunner().invoke(cli, ["down", "--name", "a", "--delete"])
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: --delete: root has run a; `sudo sampan down --delete` removes its data\n",
    )
    assert cluster_dir.pki.is_dir()
