"""`sampan kubelet` beside `sampan up`, with nothing said but where the cluster is: one can look into its pods."""

from pathlib import Path

from tests.cli.command import Sampan
from tests.cli.components.test_kubelet_classic import mirrors
from tests.cli.components.test_kubelet_join import run_as_admin
from tests.cli.kubelet import running_kubelet
from tests.kubelet.agent.real_node import manifest
from tests.ports import free_port

NODE = "classic"


def test_is_believed_and_believes(sampan: Sampan, tmp_path: Path) -> None:
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "own.json").write_text(manifest("own"))
    where = ("--secure-port", str(free_port()), "--bind-address", "127.0.0.1")
    sampan("up", "--detach", *where, "--components", "apiserver,controllers,scheduler")
    admin = sampan.directory() / "admin.kubeconfig"
    words = ["--kubeconfig", str(admin), "--hostname-override", NODE, "--pod-manifest-path", str(directory)]
    words += ["--port", str(free_port()), "--healthz-port", "0"]
    with running_kubelet(sampan, tmp_path / "root", *words):
        run_as_admin(admin, lambda client: mirrors(client, "own"))
        assert sampan("kubectl", "exec", f"own-{NODE}", "--", "echo", "seen") == "seen\n"
