"""`sampan dashboard`: the login URL, and errors."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli import dashboard
from sampan.dashboard.static_files import StaticFiles
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import kubeconfig
from sampan.testing import Cluster
from tests.dashboard.page import open_page


async def test_login_url_carries_the_kubeconfig_credentials() -> None:
    with Cluster(components=("apiserver",)) as cluster:
        url = dashboard._url_with_code(kubeconfig.load(cluster.kubeconfig))
        server, _, code = url.partition("/ui/login#code=")
        assert server == cluster.url
        async with open_page(cluster) as page:
            status, session = await page.log_in(code=code)
            assert status == 200
            assert "system:masters" in session["user"]["groups"]


@pytest.mark.parametrize("options", [[], ["--port", "0"]], ids=["cluster", "loopback"])
def test_no_link_is_printed_to_a_page_that_is_not_built(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticFiles, "has_page", lambda files: False)
    with Cluster(components=("apiserver",)) as cluster:
        command = ["--kubeconfig", str(cluster.kubeconfig), "--no-browser"]
        if not options:
            with pytest.raises(CliError, match="make dashboard"):
                dashboard._url_with_code(kubeconfig.load(cluster.kubeconfig))
            return
        result = CliRunner().invoke(dashboard.command, [*command, *options])
    assert result.exit_code == 1
    assert "make dashboard" in result.output
    assert "http" not in result.output


def test_cluster_that_is_not_running_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path))
    result = CliRunner().invoke(dashboard.command, ["--name", "none"])
    assert result.exit_code == 1
    assert "cluster none is not running" in result.output


def test_unknown_kubeconfig_context_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("apiVersion: v1\nkind: Config\ncurrent-context: a\n")
    result = CliRunner().invoke(dashboard.command, ["--kubeconfig", str(file), "--context", "b"])
    assert result.exit_code == 1
    assert "there is no context 'b'" in result.output


def test_login_code_is_passed_to_the_browser_in_a_private_file() -> None:
    with dashboard._redirecting_file("https://127.0.0.1:6443/ui/login#code=x") as page:
        assert page.parent.stat().st_mode & 0o077 == 0
        assert "#code=x" in page.read_text()
    assert not page.exists()


def test_context_names_are_sanitized_for_use_in_paths() -> None:
    assert dashboard._path_name("arn:aws:eks/us:cluster") == "arn-aws-eks-us-cluster"
    assert dashboard._path_name("admin@sampan") == "admin@sampan"
