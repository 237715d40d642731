"""The server and the credentials of a command of `sampan kubectl`."""

from pathlib import Path

import yaml
from click.testing import CliRunner

from sampan.cli.main import cli
from sampan.testing import Cluster


def test_server_flag_is_used_with_the_credentials_of_the_kubeconfig(sampan_cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load(sampan_cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    command = ["kubectl", "--kubeconfig", str(path), "--server", sampan_cluster.url, "get", "namespace", "default"]
    outcome = CliRunner().invoke(cli, command)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.splitlines()[1].startswith("default ")
