"""`sampan top`."""

import json

from click.testing import CliRunner

from sampan.api.types.core_v1 import Pod
from sampan.cli.main import cli
from sampan.cli.top import NodeUsage, PodUsage, fit_lines, node_lines, pod_lines
from sampan.testing import Cluster, builders
from tests.eventually import wait_until


def test_top_shows_usage_of_nodes_and_pods() -> None:
    with Cluster(nodes=2) as cluster:
        pod = builders.pod("busy", namespace="default")
        pod.metadata.annotations = {"hollow.sampan.dev/cpu": "16", "hollow.sampan.dev/memory": "64Mi"}
        cluster.run(cluster.client.for_kind(Pod).create(pod))

        def top(*words: str) -> str:
            done = CliRunner().invoke(cli, ["top", *words, "--kubeconfig", str(cluster.kubeconfig)])
            assert done.exit_code == 0, done.output
            return done.stdout

        wait_until(lambda: "16000m" in top("pods"))
        text = top("--once")
        assert text.startswith("NODE   STATUS")
        assert "████░░░ 50%" in text
        value = json.loads(top("-o", "json"))
        assert [node["name"] for node in value["nodes"]] == ["node-0", "node-1"]
        (usage,) = value["pods"]
        assert (usage["name"], usage["cpuMillicores"], usage["memoryBytes"]) == ("busy", 16000, 64 << 20)
        assert top("pods", "-n", "kube-system") == "There are no pods.\n"
        assert "busy" not in top("pods", "-l", "app=other")


def test_tables_fit_into_80_columns_of_a_terminal_and_have_whole_names_elsewhere() -> None:
    node = NodeUsage(
        name="a" * 60,
        state="NotReady,SchedulingDisabled",
        pods=110,
        cpu_millicores=64000,
        cpu_percent=100,
        memory_bytes=256 << 30,
        memory_percent=100,
    )
    pod = PodUsage(
        namespace="n" * 60,
        name="p" * 60,
        node="m" * 60,
        state="Terminating",
        restarts=100,
        cpu_millicores=1000,
        memory_bytes=1 << 30,
    )
    assert max(map(len, [*node_lines([node], is_cut=True), *pod_lines([pod], is_cut=True)])) <= 80
    for name in (node.name, pod.namespace, pod.name, pod.node):
        assert any(name in line for line in [*node_lines([node], is_cut=False), *pod_lines([pod], is_cut=False)])
    assert fit_lines(["a", "b", "c", "d"], 3) == ["a", "b", "… and 2 more lines"]
    assert fit_lines(["a"], 3) == ["a"]
