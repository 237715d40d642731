"""Names and data directories of clusters: nothing is touched that is not one cluster's own."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sampan.cli.failures import CliError
from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.cli.main import cli
from tests.cli.command import Sampan
from tests.ports import free_port

BAD_NAMES = ["", ".", "..", "../x", "a/b", "/tmp", "UPPER_x", "-x", "x-", "a b", "x" * 64, "ä", "x\n"]
WITH_NAME = [
    ["up"],
    ["up", "--detach"],
    ["down"],
    ["down", "--delete"],
    ["status"],
    ["image", "ls"],
    ["node", "add"],
    ["node", "remove", "node-0"],
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What SAMPAN_HOME names; it does not exist yet."""
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path / "clusters"))
    return tmp_path / "clusters"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def with_name(words: list[str], name: str) -> list[str]:
    """`sampan image` takes the name before its own commands."""
    return [*words, "--name", name]


def fill_cluster(path: Path) -> Path:
    """The files of a cluster that was started once and is stopped."""
    (path / "pki").mkdir(parents=True)
    for name in ("lock", "state.db", "admin.kubeconfig", "pki/ca.key"):
        (path / name).write_text("x")
    return path


def files(path: Path) -> list[str]:
    return sorted(str(entry.relative_to(path)) for entry in path.rglob("*"))


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("words", WITH_NAME, ids=" ".join)
def test_a_name_that_is_no_dns_label_is_refused_before_anything_is_touched(
    home: Path, words: list[str], name: str
) -> None:
    done = run(*with_name(words, name))
    assert done.exit_code == 1
    assert done.stderr == (
        f"Error: --name: {name!r} must be a DNS label: at most 63 lower-case letters, digits and hyphens, with no "
        "hyphen at its ends\n"
    )
    assert not list(home.parent.iterdir())


@pytest.mark.parametrize("name", ["a", "0", "a-b", "x" * 63])
def test_a_dns_label_is_a_name(home: Path, name: str) -> None:
    assert run("down", "--name", name).exit_code == 0


def test_an_empty_name_does_not_remove_the_clusters_of_the_user(home: Path) -> None:
    fill_cluster(home)  # as an earlier version made it with `up --name ""`
    fill_cluster(home / "x1")
    before = files(home)
    for words in (["--name", ""], ["--data-dir", str(home)], ["--data-dir", ""]):
        assert run("down", *words, "--delete").exit_code == 1
    assert files(home) == before


@pytest.mark.parametrize("place", [".", "..", "clusters/../clusters"])
def test_a_directory_of_clusters_is_no_data_directory(home: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_cluster(home / "mine")
    monkeypatch.chdir(home if place != "clusters/../clusters" else home.parent)
    before = files(home)
    for words in (["up"], ["up", "--detach"], ["down", "--delete"]):
        done = run(*words, "--data-dir", place)
        assert done.exit_code == 1
        assert done.stderr.startswith("Error: --data-dir: ")
        assert "holds the directories of clusters" in done.stderr
    assert files(home) == before


def test_a_directory_with_another_cluster_in_it_is_no_data_directory(home: Path, tmp_path: Path) -> None:
    fill_cluster(tmp_path / "project/cluster")
    for words in (["up"], ["down", "--delete"]):
        done = run(*words, "--data-dir", str(tmp_path / "project"))
        assert done.stderr == f"Error: --data-dir: {tmp_path}/project holds another cluster, 'cluster'\n"
    assert (tmp_path / "project/cluster/state.db").exists()


def test_a_directory_with_somebody_elses_files_is_no_data_directory(home: Path, tmp_path: Path) -> None:
    (tmp_path / "project/images").mkdir(parents=True)
    (tmp_path / "project/README.md").write_text("x")
    done = run("up", "--data-dir", str(tmp_path / "project"))
    assert done.stderr == (
        f"Error: --data-dir: {tmp_path}/project is neither empty nor a cluster's directory: it has 'README.md'\n"
    )
    assert files(tmp_path / "project") == ["README.md", "images"]


def test_deleting_removes_only_what_is_the_clusters(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    where = fill_cluster(home / "mine")
    (where / "notes.txt").write_text("x")
    (where / "images").symlink_to(outside)
    done = run("down", "--name", "mine", "--delete")
    assert done.stdout == "mine: data removed\n"
    assert done.stderr == f"mine: {where} is kept: it has files that are not the cluster's: notes.txt\n"
    assert files(home) == ["mine", "mine/notes.txt"]
    assert files(outside) == ["file"]


def test_an_interrupted_removal_can_be_repeated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = fill_cluster(home / "mine")
    monkeypatch.setattr("sampan.cli.local_cluster.cluster_dir._remove_path", _fails_at("pki"))
    assert run("down", "--name", "mine", "--delete").stderr == f"Error: --data-dir: cannot remove {where}/pki: busy\n"
    monkeypatch.undo()
    monkeypatch.setenv("SAMPAN_HOME", str(home))
    assert run("down", "--name", "mine", "--delete").stdout == "mine: data removed\n"
    assert not where.exists()


def _fails_at(name: str):  # type: ignore[no-untyped-def]
    def remove(path: Path) -> None:
        if path.name == name:
            raise OSError(16, "busy", str(path))

    return remove


def test_a_directory_that_is_no_clusters_gets_no_lock_file(home: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    for words in (["down"], ["down", "--delete"], ["status"]):
        run(*words, "--data-dir", str(precious))
    run("image", "ls", "--data-dir", str(precious))
    run("node", "add", "--data-dir", str(precious))
    assert files(precious) == ["file"]


def test_the_status_of_a_cluster_that_never_existed(home: Path) -> None:
    done = run("status", "--name", "foo")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: --name: there is no cluster in {home}/foo\n"


def test_directories_that_are_no_clusters_are_not_listed(home: Path) -> None:
    fill_cluster(home / "mine")
    (home / "other").mkdir()
    rows = run("status").stdout.splitlines()
    assert rows[1].split() == ["mine", "stopped"]
    assert "other" not in "".join(rows)


class TestAFailedStart:
    @pytest.mark.parametrize("words", [[], ["--detach"]], ids=["foreground", "detached"])
    def test_leaves_no_directory(self, sampan: Sampan, words: list[str]) -> None:
        error = sampan.fails("up", "--bind-address", "203.0.113.5", *words)
        assert error == "Error: --bind-address: 203.0.113.5:6443 is not an address of this machine\n"
        assert not sampan.directory().parent.exists()
        assert sampan("status") == "no clusters; `sampan up` starts one\n"

    def test_leaves_a_directory_that_was_there(self, sampan: Sampan) -> None:
        sampan.directory().mkdir(parents=True)
        sampan.fails("up", "--bind-address", "203.0.113.5")
        assert sampan.directory().is_dir()

    def test_leaves_the_data_of_an_earlier_one(self, sampan: Sampan) -> None:
        with sampan.running("up", "--secure-port", str(free_port()), "--nodes", "0") as process:
            assert process.stdout is not None
            assert any("sampan is ready" in line for line in process.stdout)
        sampan.fails("up", "--bind-address", "203.0.113.5")
        assert (sampan.directory() / "state.db").exists()


class TestDirectoriesOfOthers:
    """Modes count for root too once it is without the capabilities that override them."""

    @pytest.fixture
    def locked(self, sampan: Sampan) -> Iterator[Path]:
        """A cluster that the user of the commands may not look into."""
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            pytest.skip("needs root and setpriv")
        where = fill_cluster(sampan.directory("theirs"))
        where.chmod(0o700)
        os.chown(where, 65534, 65534)
        sampan.prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        yield where
        sampan.prefix = []

    @pytest.mark.parametrize("words", [["up"], ["up", "--detach"], ["status"], ["down"], ["down", "--delete"]])
    def test_mistakes_are_reported_in_one_line(self, sampan: Sampan, locked: Path, words: list[str]) -> None:
        for which in (["--name", "theirs"], ["--data-dir", str(locked)]):
            error = sampan.fails(*words, *which)
            assert error.count("\n") == 1
            assert error.startswith(f"Error: {which[0] if words == ['status'] else '--data-dir'}: cannot ")
            assert "Permission denied" in error
        assert stat.S_IMODE(locked.stat().st_mode) == 0o700

    def test_are_listed_as_unreadable(self, sampan: Sampan, locked: Path) -> None:
        assert sampan("status").splitlines()[1].split() == ["theirs", "unreadable"]

    def test_a_home_of_somebody_else(self, sampan: Sampan, locked: Path) -> None:
        locked.parent.chmod(0o700)
        os.chown(locked.parent, 65534, 65534)
        error = sampan.fails("status")
        assert error == f"Error: cannot read {locked.parent}: Permission denied; SAMPAN_HOME names another directory\n"
        for words in (["up", "--name", "mine"], ["up", "--name", "mine", "--detach"]):
            error = sampan.fails(*words)
            assert error == f"Error: --data-dir: cannot read {locked.parent}/mine: Permission denied\n"


def test_a_start_cleans_up_only_what_it_made(tmp_path: Path) -> None:
    where = ClusterDir(tmp_path / "a/b/c")
    undo = where.make()
    (where.path / "lock").touch()
    (tmp_path / "a/other").touch()
    undo()
    assert files(tmp_path) == ["a", "a/other"]


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match=r"--data-dir: cannot create .*file/x: Not a directory"):
        ClusterDir(tmp_path / "file/x").make()
    with pytest.raises(CliError, match="file is not a directory"):
        ClusterDir(tmp_path / "file").check()
