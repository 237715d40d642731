"""`sampan kubelet` beside `sampan up`, with the kubeconfig alone: `kubectl exec` reaches its pods."""

from pathlib import Path

from tests.cli.command import Sampan
from tests.cli.kubelet import CLASSIC_NODE, run_as_admin, running_kubelet, wait_for_mirror_pods
from tests.kubelet.agent.real_node import manifest
from tests.ports import free_port


def test_exec_reaches_a_pod_of_a_kubelet_with_the_admin_kubeconfig(sampan: Sampan, tmp_path: Path) -> None:
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "own.json").write_text(manifest("own"))
    where = ("--secure-port", str(free_port()), "--bind-address", "127.0.0.1")
    sampan("up", "--detach", *where, "--components", "apiserver,controllers,scheduler")
    admin = sampan.directory() / "admin.kubeconfig"
    words = ["--kubeconfig", str(admin), "--hostname-override", CLASSIC_NODE, "--pod-manifest-path", str(directory)]
    words += ["--port", str(free_port()), "--healthz-port", "0"]
    with running_kubelet(sampan, tmp_path / "root", *words):
        run_as_admin(admin, lambda client: wait_for_mirror_pods(client, "own"))
        assert sampan("kubectl", "exec", f"own-{CLASSIC_NODE}", "--", "echo", "seen") == "seen\n"
