"""`sampan logs`, `kubeconfig`, `completion` and the aliases of subcommands."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster
from sampan.cli.main import cli

LOG = b"""\
2026-01-02 03:04:05,678 INFO sampan.apiserver.server: serving
2026-01-02 03:04:05,679 WARNING sampan.kubelet.agent: no space
  left on device
2026-01-02 03:04:05,680 INFO sampan.network.dns.server: answering
sampan is ready
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path))
    return tmp_path


def make_cluster(home: Path, name: str) -> ClusterDir:
    cluster_dir = ClusterDir(home / name)
    cluster_dir.pki.mkdir(parents=True)
    (cluster_dir.path / "lock").touch()
    cluster_dir.log.write_bytes(LOG)
    cluster_dir.kubeconfig.write_text(f"current-context: {name}\n")
    return cluster_dir


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("kubelet",), [1, 2]),
        (("apiserver",), [0]),
        (("dns",), [3, 4]),
        (("network",), [3, 4]),
        (("--warnings",), [1, 2]),
        (("--tail", "2"), [3, 4]),
        (("--tail", "0"), []),
        (("kubelet", "--tail", "1"), [2]),
        (("--follow",), [0, 1, 2, 3, 4]),
    ],
)
def test_log_lines_are_filtered_by_component_level_and_tail(
    home: Path, words: tuple[str, ...], lines: list[int]
) -> None:
    make_cluster(home, "sampan")
    log_lines = LOG.decode().splitlines()
    assert run("logs", *words).output.splitlines() == [log_lines[index] for index in lines]


def test_cluster_without_log_file_is_reported(home: Path) -> None:
    make_cluster(home, "sampan").log.unlink()
    done = run("logs")
    assert (done.exit_code, "only a cluster started with" in done.stderr) == (1, True)


def test_kubeconfig_defaults_to_the_only_running_cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = {"other"}

    def read_note(cluster: ClusterDir) -> RunningCluster | None:
        return RunningCluster(pid=1, name="x") if cluster.path.name in running else None

    monkeypatch.setattr(ClusterDir, "read_note_if_running", read_note)
    make_cluster(home, "other")
    make_cluster(home, "third")
    assert run("kubeconfig").stdout == "current-context: other\n"
    assert run("kubeconfig", "--path").stdout == f"{home}/other/admin.kubeconfig\n"
    assert (
        run("kubeconfig", "--export", "--name", "third").stdout == f"export KUBECONFIG={home}/third/admin.kubeconfig\n"
    )
    monkeypatch.setenv("SAMPAN_NAME", "third")
    assert run("kubeconfig").stdout == "current-context: third\n"
    monkeypatch.delenv("SAMPAN_NAME")
    running.add("third")
    assert "several clusters are running: other, third" in run("kubeconfig").stderr
    make_cluster(home, "sampan")
    assert run("kubeconfig").stdout == "current-context: sampan\n"


def test_kubeconfig_without_clusters_suggests_sampan_up(home: Path) -> None:
    assert "`sampan up` starts a cluster" in run("kubeconfig").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    assert "_SAMPAN_COMPLETE" in run("completion", shell).stdout


def test_subcommand_aliases(home: Path) -> None:
    make_cluster(home, "sampan")
    assert run("image", "list").stdout == run("image", "ls").stdout
    assert run("image", "nothing").exit_code == 2
    assert (
        run("node", "list").stderr
        == run("node", "ls").stderr
        == "Error: sampan is not running; `sampan up` starts it\n"
    )
