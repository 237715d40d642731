"""`sampan trace` against a cluster with hollow nodes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from sampan.api.types.core_v1 import PodReadinessGate
from sampan.cli.main import cli
from sampan.testing import Cluster, builders
from tests.eventually import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


def trace(cluster: Cluster, *words: str) -> str:
    done = CliRunner().invoke(cli, ["trace", *words, "--kubeconfig", str(cluster.kubeconfig)])
    assert done.exit_code == 0, done.output
    return done.stdout


def create(cluster: Cluster, name: str, *gates: str, **behavior: str) -> None:
    pod = builders.pod(name, namespace="default")
    pod.metadata.annotations = {f"hollow.sampan.dev/{key.replace('_', '-')}": text for key, text in behavior.items()}
    pod.spec.readinessGates = [PodReadinessGate(conditionType=gate) for gate in gates]
    cluster.apply(pod)


def heading(cluster: Cluster, name: str) -> str:
    return trace(cluster, name).splitlines()[0].partition(" on node ")[2].partition(": ")[2]


def test_pod_whose_image_cannot_be_pulled_is_not_running(cluster: Cluster) -> None:
    create(cluster, "nopull", pull_error="no such image")
    wait_until(lambda: re.match("not running yet: main: (ErrImagePull|ImagePullBackOff)$", heading(cluster, "nopull")))
    value = json.loads(trace(cluster, "pod/nopull", "-o", "json"))
    assert "runningAfterSeconds" not in value
    assert value["state"].startswith("Pending, main: ")
    assert "not running yet" in trace(cluster, "pod/nopull", "-o", "svg")


@pytest.mark.parametrize(("name", "gates"), [("unready", ()), ("gated", ("example.com/gate",))])
def test_pod_that_is_not_ready_is_running_only(cluster: Cluster, name: str, gates: tuple[str, ...]) -> None:
    create(cluster, name, *gates, ready="0s" if gates else "1h")
    cluster.wait_for(f"pod/{name}", "jsonpath={.status.phase}=Running")
    assert re.fullmatch(r"running after [0-9.]+m?s, not ready yet", heading(cluster, name))
    assert "readyAfterSeconds" not in json.loads(trace(cluster, f"pod/{name}", "-o", "json"))


def test_delays_of_a_hollow_container_are_part_of_the_time(cluster: Cluster) -> None:
    create(cluster, "late", start="300ms", ready="300ms")
    text = trace(cluster, "pod/late", "--follow")
    value = json.loads(trace(cluster, "pod/late", "-o", "json"))
    assert "Running, ready" in text.split("\n\n")[0]
    assert value["runningAfterSeconds"] >= 0.3
    assert value["readyAfterSeconds"] >= 0.6
    assert "critical path: wait for kubelet/node-" in text


def new_pod(cluster: Cluster, known: set[str], **selection: Any) -> str:
    def find() -> list[str]:
        return [name for name in names(cluster, **selection) if name not in known]

    wait_until(lambda: bool(find()))
    cluster.wait_for(f"pod/{find()[0]}", "condition=Ready")
    return find()[0]


def names(cluster: Cluster, app: str) -> set[str]:
    return {str(pod["metadata"]["name"]) for pod in cluster.list("pods", labels=f"app={app}")}


def first_steps(cluster: Cluster, pod: str) -> list[str]:
    steps = json.loads(trace(cluster, f"pod/{pod}", "-o", "json"))["steps"]
    own = [step["name"] for step in steps if step["name"] != "wait"]
    return own[: own.index("store the pod")]


@pytest.mark.parametrize("is_evicted", [False, True])
def test_replaced_pod_begins_with_the_removal_of_the_one_before(cluster: Cluster, is_evicted: bool) -> None:
    app = "evicted" if is_evicted else "deleted"
    cluster.apply(builders.deployment(app, replicas=2, namespace="default"))
    cluster.wait_for(f"deployment/{app}", "condition=Available")
    known = names(cluster, app)
    old = min(known)
    if is_evicted:
        cluster.run(evict(cluster, old))
    else:
        cluster.delete(f"pod/{old}")
    pod = new_pod(cluster, known, app=app)
    assert first_steps(cluster, pod) == [f"{'evict' if is_evicted else 'delete'} the previous pod"]


async def evict(cluster: Cluster, name: str) -> None:
    from sampan.api.types.core_v1 import Pod
    from sampan.api.types.meta_v1 import ObjectMeta
    from sampan.api.types.policy_v1 import Eviction

    eviction = Eviction(metadata=ObjectMeta(name=name, namespace="default"))
    await cluster.client.for_kind(Pod).create_subresource("eviction", name, eviction, "default")


def test_pod_of_a_larger_or_changed_deployment_begins_with_the_change(cluster: Cluster) -> None:
    deployment = builders.manifest(builders.deployment("grown", replicas=1, namespace="default"))
    cluster.apply(deployment)
    cluster.wait_for("deployment/grown", "condition=Available")
    known = names(cluster, "grown")
    deployment["spec"]["replicas"] = 2
    cluster.apply(deployment)
    pod = new_pod(cluster, known, app="grown")
    assert first_steps(cluster, pod) == ["patch deployments", "update replicasets"]
    known |= {pod}
    deployment["spec"]["template"]["metadata"]["annotations"] = {"version": "2"}
    cluster.apply(deployment)
    pod = new_pod(cluster, known, app="grown")
    assert first_steps(cluster, pod)[0] == "patch deployments"
