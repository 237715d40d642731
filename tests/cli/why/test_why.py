"""`sampan why` and `sampan trace` against a cluster."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sampan.api.types.core_v1 import Pod, ResourceRequirements
from sampan.cli.main import cli
from sampan.machinery.client import Selection
from sampan.testing import Cluster, builders
from tests.eventually import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


def sampan(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--kubeconfig", str(cluster.kubeconfig)])


def get_output(cluster: Cluster, *words: str) -> str:
    done = sampan(cluster, *words)
    assert done.exit_code == 0, done.output
    return done.stdout


def create_pod(cluster: Cluster, name: str, *, cpu: str = "100m", **labels: str) -> None:
    pod = builders.pod(name, namespace="default", labels=labels)
    assert pod.spec.containers
    pod.spec.containers[0].resources = ResourceRequirements(requests={"cpu": cpu})
    cluster.run(cluster.client.for_kind(Pod).create(pod))
    cluster.run(wait_for_decision(cluster, name))


async def wait_for_decision(cluster: Cluster, name: str) -> None:
    """Wait until the pod has a PodScheduled condition."""
    chosen = Selection(namespace="default", fields=f"metadata.name={name}")
    async with cluster.client.for_kind(Pod).watch(chosen, initial_events=True) as events:
        async for batch in events:
            for event in batch:
                if event.key.name and any(
                    condition.type == "PodScheduled" for condition in event.object.status.conditions
                ):
                    return


def test_unschedulable_pod_is_explained(cluster: Cluster) -> None:
    create_pod(cluster, "big", cpu="1000")
    text = get_output(cluster, "why", "pod/big")
    assert text.startswith("pod default/big is Pending: no node yet\nlast tried ")
    assert "0/2 nodes are available: 2 Insufficient cpu." in text
    assert "node-0 and 1 more   NodeResourcesFit   Insufficient cpu" in text
    assert "asks 1000 cpu; node-0 has 32, 0 requested; others that lack it have no more left" in " ".join(text.split())
    wide = get_output(cluster, "why", "pod/big", "-o", "wide")
    assert "Insufficient cpu: asks 1000, has 32, 0 requested" in wide
    value = json.loads(get_output(cluster, "why", "big", "-o", "json"))
    assert (value["state"], value["scheduling"]["count"]) == ("Pending", 2)
    assert re.search("schedule +kube-scheduler", get_output(cluster, "trace", "pod/big"))


def test_scheduled_pod_and_service_are_explained(cluster: Cluster) -> None:
    create_pod(cluster, "small", app="web")
    text = get_output(cluster, "why", "pod/small", "-o", "wide")
    assert "pod default/small is " in text
    assert "decided " in text
    assert "NodeResourcesFit x1" in text
    spec: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    CliRunner().invoke(
        cli,
        ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "apply", "-f", "-"],
        input=json.dumps(service),
    )
    assert get_output(cluster, "why", "service/web").startswith("service/web: 1 pods\nPOD ")


def test_image_pull_in_progress_is_shown_without_scores(cluster: Cluster) -> None:
    pod = builders.pod("pulling", namespace="default")
    pod.metadata.annotations = {"hollow.sampan.dev/pull": "1h"}
    cluster.apply(pod)
    wait_until(lambda: "pulling image" in get_output(cluster, "why", "pulling"))
    first, *others = get_output(cluster, "why", "pod/pulling").splitlines()
    assert first.startswith("pod default/pulling is Pending on node-")
    assert " ".join(others).split()[:5] == ["container", "main:", "ContainerCreating,", "pulling", "image"]
    assert "NODE" not in " ".join(others)
    assert "NODE" in get_output(cluster, "why", "pod/pulling", "-o", "wide")


def test_pod_template_of_a_file_is_simulated_without_being_created(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "web.json"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100"}}}
    template: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w"},
        "spec": {"template": template},
    }
    file.write_text(json.dumps(deployment))
    text = get_output(cluster, "why", "-f", str(file))
    assert text.startswith(f"deployment default/w from {file}, if it were created now")
    assert "Now none of 2 nodes is feasible:" in text
    assert cluster.run(cluster.client.for_kind(Pod).list(Selection(labels="a=b"))).items == []
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1m"
    file.write_text(json.dumps(deployment))
    assert "Now 2 of 2 nodes are feasible" in get_output(cluster, "why", "-f", str(file))


def test_file_with_several_objects_explains_each_pod(cluster: Cluster) -> None:
    spec = {"schedulingGates": [{"name": "x/y"}], "containers": [{"name": "c", "image": "i"}]}
    gated = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gated"}, "spec": spec}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    done = explain_objects(cluster, service, gated, gated | {"metadata": {"name": "other"}})
    assert done.exit_code == 0, done.output
    assert done.stdout.count("if it were created now\nit would be gated: waiting for scheduling gates: [x/y]\n") == 2
    assert done.stdout.count("\n---\n") == 1
    assert done.stderr == "(STDIN: Service s has no pods to explain)\n"
    done = explain_objects(cluster, service)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: STDIN: Service s has no pods to explain\n"


def explain_objects(cluster: Cluster, *objects: dict[str, Any]) -> Any:
    """Run `sampan why -f -` with the objects as its input."""
    text = "\n---\n".join(json.dumps(obj) for obj in objects)
    return CliRunner().invoke(cli, ["why", "-f", "-", "--kubeconfig", str(cluster.kubeconfig)], input=text)


@pytest.mark.parametrize(
    ("words", "explanation"),
    [
        (["why"], "want either KIND/NAME or -f FILE"),
        (["why", "pod/gone"], 'pods "gone" not found'),
        (["why", "pod/gone", "-o", "xml"], "-o: there is no 'xml'"),
        (["why", "configmap/kube-root-ca.crt"], "it has no selector"),
        (["why", "node/node-0"], "node/node-0: it has no selector"),
        (["why", "-f", "/nowhere.yaml"], "does not exist"),
    ],
)
def test_invalid_arguments_are_reported(cluster: Cluster, words: list[str], explanation: str) -> None:
    done = sampan(cluster, *words)
    assert done.exit_code != 0
    assert explanation in done.output


def test_scheduling_is_simulated_when_no_scheduler_runs() -> None:
    with Cluster(components=["apiserver", "controllers", "kubelet"], nodes=2) as cluster:
        cluster.run(cluster.client.for_kind(Pod).create(builders.pod("p", namespace="default")))
        done = sampan(cluster, "why", "pod/p")
        assert done.exit_code == 0, done.output
        assert "simulated from the objects of the API server" in done.stderr
        assert "Now 2 of 2 nodes are feasible" in done.stdout


def test_anonymous_user_is_forbidden(cluster: Cluster) -> None:
    done = CliRunner().invoke(
        cli, ["why", "pod/p", "-s", cluster.url, "--insecure-skip-tls-verify"], env={"KUBECONFIG": "/nowhere"}
    )
    assert done.exit_code != 0
    assert "Forbidden" in done.output


def test_trace_output_as_json_and_svg(cluster: Cluster) -> None:
    create_pod(cluster, "traced")
    value = json.loads(get_output(cluster, "trace", "pod/traced", "-o", "json"))
    assert [step["name"] for step in value["steps"]][:1] == ["store the pod"]
    assert value["records"][0]["took"] > 0
    assert get_output(cluster, "trace", "pod/traced", "-o", "svg").startswith("<svg")
    assert "0.0ms" in get_output(cluster, "trace", "namespace/default")
    assert sampan(cluster, "trace", "namespace/default", "-o", "svg").exit_code == 1
    assert sampan(cluster, "trace", "pods").exit_code == 1
    assert "choose a node" in get_output(cluster, "trace", "pod/traced", "--follow")


def test_preempted_pod_and_its_preemptor_are_explained() -> None:
    with Cluster(nodes=1) as cluster:
        create_pod(cluster, "low", cpu="20")
        high = builders.pod("high", namespace="default")
        assert high.spec.containers
        high.spec.containers[0].resources = ResourceRequirements(requests={"cpu": "30"})
        high.spec.priorityClassName = "system-cluster-critical"
        cluster.run(cluster.client.for_kind(Pod).create(high))
        wait_until(lambda: "preempted by pod" in sampan(cluster, "why", "pod/low").stdout)
        wait_until(lambda: "does not exist any more" in sampan(cluster, "why", "pod/low").stdout)
        text = get_output(cluster, "why", "pod/low")
        words = " ".join(text.split())
        assert "preempted by pod default/high to make room on node-0: it has priority 2000000000" in words
        assert "system:kube-scheduler requested its deletion" in words
        text = get_output(cluster, "why", "pod/high")
        assert "of a priority below 2000000000: default/low" in " ".join(text.split())
        assert max(map(len, text.splitlines())) <= 80
