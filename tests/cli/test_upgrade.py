"""Data directories of other versions."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sampan import __version__
from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.cli.local_cluster.data_version import read_version, write_version
from sampan.cli.main import cli
from sampan.cli.upgrade import notes_since


@pytest.fixture
def cluster_dir(tmp_path: Path) -> ClusterDir:
    directory = tmp_path / "lab"
    (directory / "pki").mkdir(parents=True)
    (directory / "lock").touch()
    return ClusterDir(directory)


def sampan(cluster_dir: ClusterDir, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--name", "lab"], env={"SAMPAN_HOME": str(cluster_dir.path.parent)})


def test_current_data_directory_reports_version_and_next_step(cluster_dir: ClusterDir) -> None:
    write_version(cluster_dir)
    done = sampan(cluster_dir, "upgrade")
    assert done.exit_code == 0, done.output
    assert f"written by    {__version__}\n" in done.stdout
    assert "next          sampan snapshot save --name lab, then sampan up --name lab\n" in done.stdout


def test_data_directory_without_version_file_has_format_1(cluster_dir: ClusterDir) -> None:
    assert read_version(cluster_dir).format == 1
    assert "a version that did not record it" in sampan(cluster_dir, "upgrade").stdout
    assert notes_since("") == notes_since("0.0.9") != []
    assert notes_since(__version__) == []


def test_data_directory_of_a_newer_version_is_refused(cluster_dir: ClusterDir) -> None:
    cluster_dir.version_file.write_text('{"version": "9.0.0", "format": 99}')
    done = sampan(cluster_dir, "upgrade", "-o", "json")
    assert done.exit_code == 1
    assert "was written by Sampan 9.0.0 (data format 99)" in json.loads(done.stdout)["problem"]
    for words in (["up", "--nodes", "0"], ["up", "--nodes", "0", "--detach"]):
        done = sampan(cluster_dir, *words)
        assert done.exit_code == 1
        assert done.stderr.startswith(
            f"Error: --data-dir: {cluster_dir.path} was written by Sampan 9.0.0 (data format 99)"
        )
        assert done.stderr.endswith("use that version, or another --name\n")
    assert sorted(path.name for path in cluster_dir.path.iterdir()) == ["lock", "pki", "version.json"]


def test_unreadable_version_file_and_unknown_cluster_are_reported(cluster_dir: ClusterDir) -> None:
    cluster_dir.version_file.write_text("[]")
    assert "cannot read" in sampan(cluster_dir, "upgrade").stderr
    assert "there is no cluster in" in CliRunner().invoke(cli, ["upgrade", "--name", "none"]).stderr
