"""Names and data directories of clusters: files that do not belong to a cluster are never changed."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sampan.cli.local_cluster import cluster_dir as cluster_dir_module
from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.cli.main import cli
from sampan.machinery.cli_errors import CliError
from tests.cli.command import Sampan
from tests.ports import free_port

_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
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
    """The directory that SAMPAN_HOME names, which does not exist yet."""
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path / "clusters"))
    return tmp_path / "clusters"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def with_name(words: list[str], name: str) -> list[str]:
    return [*words, "--name", name]


def fill_cluster(path: Path) -> Path:
    """Write the files of a cluster that was started once and is stopped."""
    (path / "pki").mkdir(parents=True)
    for name in ("lock", "state.db", "admin.kubeconfig", "pki/ca.key"):
        (path / name).write_text("x")
    return path


def list_files(path: Path) -> list[str]:
    return sorted(str(entry.relative_to(path)) for entry in path.rglob("*"))


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("words", WITH_NAME, ids=" ".join)
def test_invalid_cluster_name_is_rejected_before_any_file_is_touched(home: Path, words: list[str], name: str) -> None:
    done = run(*with_name(words, name))
    assert done.exit_code == 1
    assert done.stderr == (
        f"Error: --name: {name!r} must be a DNS label: at most 63 lower-case letters, digits and hyphens, with no "
        "hyphen at its ends\n"
    )
    assert not list(home.parent.iterdir())


@pytest.mark.parametrize("name", ["a", "0", "a-b", "x" * 63])
def test_dns_labels_are_accepted_as_cluster_names(home: Path, name: str) -> None:
    fill_cluster(home / name)
    assert run("down", "--name", name).exit_code == 0


def test_down_of_a_cluster_that_does_not_exist_fails_and_creates_nothing(home: Path) -> None:
    for words in (["--name", "none"], ["--data-dir", str(home / "none")], ["--name", "none", "--delete"]):
        done = run("down", *words)
        assert done.exit_code == 1
        assert "no cluster" in done.stderr
    assert not home.exists()


def test_down_delete_with_an_empty_name_removes_no_clusters(home: Path) -> None:
    fill_cluster(home)  # as an earlier version made it with `up --name ""`
    fill_cluster(home / "x1")
    before = list_files(home)
    for words in (["--name", ""], ["--data-dir", str(home)], ["--data-dir", ""]):
        assert run("down", *words, "--delete").exit_code == 1
    assert list_files(home) == before


@pytest.mark.parametrize("place", [".", "..", "clusters/../clusters"])
def test_directory_of_clusters_is_rejected_as_data_directory(
    home: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_cluster(home / "mine")
    monkeypatch.chdir(home if place != "clusters/../clusters" else home.parent)
    before = list_files(home)
    for words in (["up"], ["up", "--detach"], ["down", "--delete"]):
        done = run(*words, "--data-dir", place)
        assert done.exit_code == 1
        assert done.stderr.startswith("Error: --data-dir: ")
        assert "holds the directories of clusters" in done.stderr
    assert list_files(home) == before


def test_directory_that_contains_a_cluster_is_rejected_as_data_directory(home: Path, tmp_path: Path) -> None:
    fill_cluster(tmp_path / "project/cluster")
    for words in (["up"], ["down", "--delete"]):
        done = run(*words, "--data-dir", str(tmp_path / "project"))
        assert done.stderr == f"Error: --data-dir: {tmp_path}/project holds another cluster, 'cluster'\n"
    assert (tmp_path / "project/cluster/state.db").exists()


def test_directory_with_foreign_files_is_rejected_as_data_directory(home: Path, tmp_path: Path) -> None:
    (tmp_path / "project/images").mkdir(parents=True)
    (tmp_path / "project/README.md").write_text("x")
    done = run("up", "--data-dir", str(tmp_path / "project"))
    assert done.stderr == (
        f"Error: --data-dir: {tmp_path}/project is neither empty nor a cluster's directory: it has 'README.md'\n"
    )
    assert list_files(tmp_path / "project") == ["README.md", "images"]


def test_down_delete_keeps_foreign_files_and_link_targets(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    cluster_dir = fill_cluster(home / "mine")
    (cluster_dir / "notes.txt").write_text("x")
    (cluster_dir / "images").symlink_to(outside)
    done = run("down", "--name", "mine", "--delete")
    assert done.stdout == "mine: data removed\n"
    assert done.stderr == f"mine: {cluster_dir} is kept: it has files that are not the cluster's: notes.txt\n"
    assert list_files(home) == ["mine", "mine/notes.txt"]
    assert list_files(outside) == ["file"]


def test_an_interrupted_removal_can_be_repeated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster_dir = fill_cluster(home / "mine")
    monkeypatch.setattr(cluster_dir_module, "_remove_path", _make_failing_remove("pki"))
    assert (
        run("down", "--name", "mine", "--delete").stderr
        == f"Error: --data-dir: cannot remove {cluster_dir}/pki: busy\n"
    )
    monkeypatch.undo()
    monkeypatch.setenv("SAMPAN_HOME", str(home))
    assert run("down", "--name", "mine", "--delete").stdout == "mine: data removed\n"
    assert not cluster_dir.exists()


def _make_failing_remove(name: str):  # type: ignore[no-untyped-def]
    def remove(path: Path) -> None:
        if path.name == name:
            raise OSError(16, "busy", str(path))

    return remove


def test_commands_create_no_lock_file_in_a_foreign_directory(home: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "file").write_text("x")
    for words in (["down"], ["down", "--delete"], ["status"]):
        run(*words, "--data-dir", str(foreign))
    run("image", "ls", "--data-dir", str(foreign))
    run("node", "add", "--data-dir", str(foreign))
    assert list_files(foreign) == ["file"]


def test_status_of_an_unknown_cluster_fails(home: Path) -> None:
    done = run("status", "--name", "foo")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: --name: there is no cluster in {home}/foo\n"


def test_status_omits_directories_that_are_not_clusters(home: Path) -> None:
    fill_cluster(home / "mine")
    (home / "other").mkdir()
    rows = run("status").stdout.splitlines()
    assert rows[1].split() == ["mine", "stopped"]
    assert "other" not in "".join(rows)


class TestFailedStart:
    @pytest.mark.parametrize("words", [[], ["--detach"]], ids=["foreground", "detached"])
    def test_failed_start_leaves_no_directory(self, sampan: Sampan, words: list[str]) -> None:
        error = sampan.expect_failure("up", "--bind-address", "203.0.113.5", *words)
        assert error == "Error: --bind-address: 203.0.113.5:6443 is not an address of this machine\n"
        assert not sampan.directory().parent.exists()
        assert sampan("status") == "no clusters; `sampan up` starts one\n"

    def test_failed_start_keeps_an_existing_directory(self, sampan: Sampan) -> None:
        sampan.directory().mkdir(parents=True)
        sampan.expect_failure("up", "--bind-address", "203.0.113.5")
        assert sampan.directory().is_dir()

    def test_failed_start_keeps_the_data_of_an_earlier_start(self, sampan: Sampan) -> None:
        with sampan.running_forked_server("up", "--secure-port", str(free_port()), "--nodes", "0") as process:
            assert any("sampan is ready" in line for line in process.stdout)
        sampan.expect_failure("up", "--bind-address", "203.0.113.5")
        assert (sampan.directory() / "state.db").exists()


class TestUnreadableDirectory:
    """File modes apply to root as well without the capabilities that override them."""

    @pytest.fixture
    def unreadable(self, sampan: Sampan) -> Iterator[Path]:
        """A cluster directory that the user of the commands may not read."""
        if os.geteuid() != 0:
            pytest.skip("needs root")
        cluster_dir = fill_cluster(sampan.directory("theirs"))
        cluster_dir.chmod(0o700)
        os.chown(cluster_dir, 65534, 65534)
        sampan.dropped_capabilities = [_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH]
        yield cluster_dir
        sampan.dropped_capabilities = []

    @pytest.mark.parametrize("words", [["up"], ["up", "--detach"], ["status"], ["down"], ["down", "--delete"]])
    def test_permission_error_is_reported_in_one_line(self, sampan: Sampan, unreadable: Path, words: list[str]) -> None:
        for selection in (["--name", "theirs"], ["--data-dir", str(unreadable)]):
            error = sampan.expect_failure(*words, *selection)
            assert error.count("\n") == 1
            assert error.startswith(f"Error: {selection[0] if words == ['status'] else '--data-dir'}: cannot ")
            assert "Permission denied" in error
        assert stat.S_IMODE(unreadable.stat().st_mode) == 0o700

    def test_status_lists_an_unreadable_cluster(self, sampan: Sampan, unreadable: Path) -> None:
        assert sampan("status").splitlines()[1].split() == ["theirs", "unreadable"]

    def test_unreadable_sampan_home_is_reported(self, sampan: Sampan, unreadable: Path) -> None:
        unreadable.parent.chmod(0o700)
        os.chown(unreadable.parent, 65534, 65534)
        error = sampan.expect_failure("status")
        assert (
            error == f"Error: cannot read {unreadable.parent}: Permission denied; SAMPAN_HOME names another directory\n"
        )
        for words in (["up", "--name", "mine"], ["up", "--name", "mine", "--detach"]):
            error = sampan.expect_failure(*words)
            assert error == f"Error: --data-dir: cannot read {unreadable.parent}/mine: Permission denied\n"


def test_undo_of_make_removes_only_created_directories(tmp_path: Path) -> None:
    cluster_dir = ClusterDir(tmp_path / "a/b/c")
    undo = cluster_dir.make()
    (cluster_dir.path / "lock").touch()
    (tmp_path / "a/other").touch()
    undo()
    assert list_files(tmp_path) == ["a", "a/other"]


def test_data_dir_below_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match=r"--data-dir: cannot create .*file/x: Not a directory"):
        ClusterDir(tmp_path / "file/x").make()
    with pytest.raises(CliError, match="file is not a directory"):
        ClusterDir(tmp_path / "file").check()


def test_volumes_are_hidden_from_other_users_in_a_directory_that_existed(tmp_path: Path) -> None:
    """Volumes are open to every user that containers run as, and a directory that existed keeps its permissions."""
    tmp_path.chmod(0o755)
    where = ClusterDir(tmp_path)
    where.volumes.mkdir(mode=0o755)
    where.make()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE(where.volumes.stat().st_mode) == 0o700
