"""Clusters that are started through sudo belong to the user who called it."""

import os
import pwd
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.local_cluster.cluster_dir import ClusterDir, clusters_root, known_clusters
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


def test_the_directory_is_in_the_home_of_the_user(home: Path) -> None:
    assert clusters_root() == home / ".local/share/sampan"
    where = ClusterDir(clusters_root() / "a")
    where.make()
    assert [path.stat().st_uid for path in (where.path, where.path.parent, home / ".local")] == [USER] * 3
    where.pki.mkdir()
    read_by_commands = (where.kubeconfig, where.flags, where.log, where.version_file, where.path / "lock")
    for path in read_by_commands:
        path.touch(mode=0o600)
    where.hand_over()
    assert [(path.stat().st_uid, path.stat().st_mode & 0o777) for path in read_by_commands] == [(USER, 0o600)] * 5
    assert where.pki.stat().st_uid == 0
    assert where in known_clusters()


def test_links_to_files_of_root_are_not_given_away(home: Path) -> None:
    secret = home / "secret"
    secret.touch()
    hard, soft, own = home / "hard", home / "soft", home / "own"
    hard.hardlink_to(secret)
    soft.symlink_to(secret)
    own.touch()
    hand_over([hard, soft, own, home / "missing"])
    assert [path.stat().st_uid for path in (secret, own)] == [0, USER]


@pytest.mark.parametrize("uid", ["", "0", "x", "-1", "4294967296000", "\u0661", "54399"])
def test_other_values_are_no_user(home: Path, monkeypatch: pytest.MonkeyPatch, uid: str) -> None:
    monkeypatch.setenv("SUDO_UID", uid)
    assert sudo_user() is None


def test_what_root_has_run_is_not_removed_by_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = ClusterDir(clusters_root() / "a")
    where.make()
    where.pki.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(os, "geteuid", lambda: USER)
    (where.path / "lock").touch()
    done = CliRunner().invoke(cli, ["down", "--name", "a", "--delete"])
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: --delete: root has run a; `sudo sampan down --delete` removes its data\n",
    )
    assert where.pki.is_dir()
