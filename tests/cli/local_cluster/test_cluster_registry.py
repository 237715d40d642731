"""Clusters are found by their names wherever their data are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sampan.cli.local_cluster.cluster_dir import ClusterDir, cluster_dir, find_cluster, list_clusters
from sampan.cli.local_cluster.cluster_registry import (
    clusters_root,
    list_registered_clusters,
    register_cluster,
    registered_name,
    unregister_cluster,
)
from sampan.machinery.cli_errors import CliError
from tests.cli.command import Sampan
from tests.ports import free_port


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def stopped_cluster(path: Path) -> Path:
    (path / "pki").mkdir(parents=True)
    (path / "lock").touch()
    return path


def test_registered_cluster_is_found_by_name_until_it_is_unregistered(home: Path, tmp_path: Path) -> None:
    data = stopped_cluster(tmp_path / "data")
    register_cluster("eco", data)
    assert find_cluster(None, "eco").path == cluster_dir(None, "eco").path == data
    assert (registered_name(data), find_cluster(None, "eco").name) == ("eco", "eco")
    assert [where.path for where in list_clusters()] == [data]
    unregister_cluster(data)
    assert find_cluster(None, "eco").path == home / "eco"
    assert not home.exists()


def test_cluster_in_the_default_directory_needs_no_record(home: Path) -> None:
    data = stopped_cluster(clusters_root() / "mine")
    register_cluster("mine", data)
    assert list(list_registered_clusters()) == []
    assert find_cluster(None, "mine").path == data


def test_cluster_that_was_deleted_or_moved_is_not_found(home: Path, tmp_path: Path) -> None:
    old, new = stopped_cluster(tmp_path / "old"), tmp_path / "new"
    register_cluster("eco", old)
    shutil.move(old, new)
    assert (find_cluster(None, "eco").path, list(list_clusters())) == (home / "eco", [])
    register_cluster("eco", new)
    assert find_cluster(None, "eco").path == new
    assert len(list(list_registered_clusters())) == 1, "the record of the old directory is removed"


def test_renamed_cluster_has_one_name(home: Path, tmp_path: Path) -> None:
    data = stopped_cluster(tmp_path / "data")
    register_cluster("before", data)
    register_cluster("after", data)
    assert find_cluster(None, "before").path == home / "before"
    assert (find_cluster(None, "after").path, registered_name(data)) == (data, "after")


def test_running_cluster_is_chosen_of_several_with_its_name(home: Path, tmp_path: Path) -> None:
    first, second = stopped_cluster(tmp_path / "first"), stopped_cluster(tmp_path / "second")
    register_cluster("twin", first)
    register_cluster("twin", second)
    with pytest.raises(CliError, match="several clusters have the name twin"):
        find_cluster(None, "twin")
    (second / "running.json").write_text('{"pid": 1, "name": "twin"}')
    lock = ClusterDir(second).lock()
    assert lock.acquire()
    assert find_cluster(None, "twin").path == second
    lock.release()
    default = stopped_cluster(home / "twin")
    assert find_cluster(None, "twin").path == default


def test_default_name_starts_the_default_directory(home: Path, tmp_path: Path) -> None:
    """A cluster that was started with --data-dir alone has the default name too."""
    data = stopped_cluster(tmp_path / "data")
    register_cluster("sampan", data)
    assert cluster_dir(None, "sampan").path == home / "sampan"
    assert find_cluster(None, "sampan").path == data


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"name": "eco", "data_dir": "relative"}', '{"name": "other", "data_dir": "/tmp"}', "x" * 100_000],
)
def test_damaged_record_is_ignored(home: Path, tmp_path: Path, content: str) -> None:
    data = stopped_cluster(tmp_path / "data")
    register_cluster("eco", data)
    (record,) = (home / ".clusters").iterdir()
    record.write_text(content)
    assert list(list_registered_clusters()) == []
    assert (registered_name(data), find_cluster(None, "eco").path) == ("", home / "eco")
    register_cluster("eco", data)
    assert find_cluster(None, "eco").path == data


def test_registry_that_cannot_be_written_does_not_stop_a_cluster(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.write_text("a file")
    register_cluster("eco", stopped_cluster(tmp_path / "data"))
    assert "cannot record in" in caplog.text


def test_every_command_finds_a_cluster_with_data_elsewhere(sampan: Sampan, tmp_path: Path) -> None:
    port, data = str(free_port()), tmp_path / "elsewhere"
    words = ("--runtime", "hollow", "--components", "apiserver,controllers,kubelet", "--bind-address", "127.0.0.1")
    sampan("up", "--name", "eco", "--data-dir", str(data), "-d", "--secure-port", port, *words)
    assert sampan("status").splitlines()[1].split()[:2] == ["eco", "running"]
    assert f"data          {data}" in sampan("status", "--name", "eco")
    assert sampan("kubeconfig", "--name", "eco", "--path") == f"{data}/admin.kubeconfig\n"
    for command in (
        ["kubectl", "--name", "eco", "get", "node", "node-0"],
        ["node", "ls", "--name", "eco"],
        ["logs", "--name", "eco"],
        ["trace", "--name", "eco", "node/node-0"],
        ["snapshot", "save", "--name", "eco", str(tmp_path / "eco.tar")],
        ["doctor", "--name", "eco", "-o", "json"],
        ["image", "ls", "--name", "eco"],
        ["upgrade", "--name", "eco"],
    ):
        done = sampan.run(*command)
        assert done.returncode == 0 or command[0] == "doctor", (command, done.stdout, done.stderr)
        assert "no cluster" not in done.stdout + done.stderr
    assert sampan("down", "--data-dir", str(data)) == "eco: stopped\n"
    assert sampan("down", "--name", "eco").startswith("eco: was not running")
    assert sampan.run("status", "--name", "eco").stdout.splitlines()[1].split() == ["eco", "stopped"]
    sampan("up", "--name", "eco", "-d", "--secure-port", port)
    assert sampan.run("status", "--name", "eco").returncode == 0
    assert sampan("down", "--name", "eco", "--delete") == "eco: stopped, data removed\n"
    assert not data.exists()
    assert "there is no cluster 'eco'" in sampan.expect_failure("down", "--name", "eco")
    assert "there is no cluster in" in sampan.expect_failure("status", "--name", "eco")
