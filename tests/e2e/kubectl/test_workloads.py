"""kubectl with workloads: create, scale, set, rollout, autoscale, get and describe.

No workload controller is needed: the tests write the objects that controllers would create.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import DEPLOYMENT, yaml
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

STATEFUL_SET = yaml("""
    apiVersion: apps/v1
    kind: StatefulSet
    metadata:
      name: db
    spec:
      serviceName: db
      replicas: 0
      selector:
        matchLabels: {app: db}
      template:
        metadata:
          labels: {app: db}
        spec:
          containers:
          - name: main
            image: postgres:17
            volumeMounts:
            - {name: data, mountPath: /data}
      volumeClaimTemplates:
      - metadata:
          name: data
        spec:
          accessModes: [ReadWriteOnce]
          resources: {requests: {storage: 1Gi}}
    """)
DAEMON_SET = yaml("""
    apiVersion: apps/v1
    kind: DaemonSet
    metadata:
      name: agent
    spec:
      selector:
        matchLabels: {app: agent}
      template:
        metadata:
          labels: {app: agent}
        spec:
          nodeSelector: {none: such}
          containers:
          - name: main
            image: agent:1
    """)
REPLICA_SET = yaml("""
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata:
      name: old
    spec:
      replicas: 0
      selector:
        matchLabels: {app: old}
      template:
        metadata:
          labels: {app: old}
        spec:
          containers:
          - name: main
            image: nginx:1
    """)
REPLICATION_CONTROLLER = yaml("""
    apiVersion: v1
    kind: ReplicationController
    metadata:
      name: older
    spec:
      replicas: 0
      selector: {app: older}
      template:
        metadata:
          labels: {app: older}
        spec:
          containers:
          - name: main
            image: nginx:1
    """)


CRON_JOB = yaml("""
    apiVersion: batch/v1
    kind: CronJob
    metadata: {name: nightly}
    spec:
      schedule: "@daily"
      jobTemplate:
        spec:
          template:
            spec:
              restartPolicy: OnFailure
              containers: [{name: nightly, image: "busybox:1"}]
    """)
JOB = yaml("""
    apiVersion: batch/v1
    kind: Job
    metadata: {name: once}
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: once, image: "busybox:1"}]
    """)
DISRUPTION_BUDGET = yaml("""
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: few}
    spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
    """)


@pytest.fixture
def web(kubectl: Kubectl, objects: NamespaceObjects) -> Kubectl:
    """kubectl with a paused Deployment."""
    objects.apply(DEPLOYMENT.replace("spec:\n  replicas: 2", "spec:\n  paused: true\n  replicas: 2", 1))
    return kubectl


def containers_of(objects: NamespaceObjects) -> list[dict[str, Any]]:
    """Return the containers in the template of the Deployment."""
    containers: list[dict[str, Any]] = objects.get("deployment/web")["spec"]["template"]["spec"]["containers"]
    return containers


class TestScale:
    def test_scale_deployment(self, web: Kubectl, objects: NamespaceObjects) -> None:
        assert web("scale", "deployment", "web", "--replicas=5") == "deployment.apps/web scaled\n"
        deployment = objects.get("deployment/web")
        assert (deployment["spec"]["replicas"], deployment["metadata"]["generation"]) == (5, 2)

    def test_current_replicas_mismatch_is_an_error(self, web: Kubectl) -> None:
        error = web.fails("scale", "deployment", "web", "--replicas=5", "--current-replicas=7")
        assert "Expected replicas to be 7, was 2" in error

    def test_negative_replicas_are_rejected(self, web: Kubectl) -> None:
        assert "--replicas=COUNT flag is required" in web.fails("scale", "deployment", "web", "--replicas=-1")

    @pytest.mark.parametrize(
        ("manifest", "name"),
        [(STATEFUL_SET, "statefulset/db"), (REPLICA_SET, "replicaset/old"), (REPLICATION_CONTROLLER, "rc/older")],
        ids=["statefulset", "replicaset", "replicationcontroller"],
    )
    def test_server_dry_run_does_not_scale(
        self, kubectl: Kubectl, objects: NamespaceObjects, manifest: str, name: str
    ) -> None:
        kubectl.require_version(1, 24)
        objects.apply(manifest)
        assert kubectl("scale", name, "--replicas=3", "--dry-run=server").endswith("scaled (server dry run)\n")
        assert objects.get(name)["spec"]["replicas"] == 0

    def test_kind_without_scale_subresource(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        objects.apply(DAEMON_SET)
        assert "could not find the requested resource" in kubectl.fails("scale", "daemonset", "agent", "--replicas=3")


class TestSet:
    def test_image(self, web: Kubectl, objects: NamespaceObjects) -> None:
        assert web("set", "image", "deployment/web", "main=nginx:9") == "deployment.apps/web image updated\n"
        assert [container["image"] for container in containers_of(objects)] == ["nginx:9"]
        assert objects.get("deployment/web")["metadata"]["generation"] == 2

    def test_env_and_resources(self, web: Kubectl, objects: NamespaceObjects) -> None:
        web("set", "env", "deployment/web", "COLOR=blue")
        web("set", "resources", "deployment/web", "--limits=cpu=200m,memory=64Mi")
        (container,) = containers_of(objects)
        assert container["env"] == [{"name": "COLOR", "value": "blue"}]
        assert container["resources"] == {"limits": {"cpu": "200m", "memory": "64Mi"}}

    def test_service_account(self, web: Kubectl, objects: NamespaceObjects) -> None:
        web("set", "serviceaccount", "deployment", "web", "robot")
        spec = objects.get("deployment/web")["spec"]["template"]["spec"]
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")

    def test_selector_is_immutable(self, web: Kubectl) -> None:
        patch = '{"spec":{"selector":{"matchLabels":{"more":"x"}},"template":{"metadata":{"labels":{"more":"x"}}}}}'
        error = web.fails("patch", "deployment", "web", "-p", patch)
        shown = '{"matchLabels":{"app":"web","more":"x"}}'
        assert error == (
            f'The Deployment "web" is invalid: spec.selector: Invalid value: {shown}: field is immutable\n'
        )


class TestRollout:
    def test_pause_and_resume(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        objects.apply(DEPLOYMENT)
        assert kubectl("rollout", "pause", "deployment/web") == "deployment.apps/web paused\n"
        assert objects.get("deployment/web")["spec"]["paused"] is True
        assert kubectl("rollout", "resume", "deployment/web") == "deployment.apps/web resumed\n"
        assert "paused" not in objects.get("deployment/web")["spec"]

    def test_restart(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        objects.apply(DAEMON_SET)
        assert kubectl("rollout", "restart", "daemonset/agent") == "daemonset.apps/agent restarted\n"
        daemon_set = objects.get("daemonset/agent")
        assert "kubectl.kubernetes.io/restartedAt" in daemon_set["spec"]["template"]["metadata"]["annotations"]
        assert daemon_set["metadata"]["annotations"]["deprecated.daemonset.template.generation"] == "2"

    def test_history(self, web: Kubectl, objects: NamespaceObjects) -> None:
        objects.apply(revision_of(objects.get("deployment/web"), 1))
        table = web("rollout", "history", "deployment/web")
        assert table.splitlines()[0] == "deployment.apps/web "
        assert re.search(r"^1 +first$", table, re.M)
        assert "nginx:1.27" in web("rollout", "history", "deployment/web", "--revision=1")

    def test_history_of_a_daemon_set(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        objects.apply(DAEMON_SET)
        objects.apply(controller_revision(objects.get("daemonset/agent")))
        assert re.search(r"^7 +first$", kubectl("rollout", "history", "daemonset/agent"), re.M)
        assert "agent:1" in kubectl("rollout", "history", "daemonset/agent", "--revision=7")


def controller_revision(daemon_set: dict[str, dict[str, Any]]) -> dict[str, object]:
    """Return the ControllerRevision that a controller would have created."""
    meta, template = daemon_set["metadata"], daemon_set["spec"]["template"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": meta["uid"], "controller": True}
    own = {"name": "agent-7", "labels": {"app": "agent"}, "ownerReferences": [owner]}
    own["annotations"] = {"kubernetes.io/change-cause": "first"}
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": own, "revision": 7, "data": data}


def revision_of(deployment: dict[str, dict[str, object]], number: int) -> dict[str, object]:
    """Return the ReplicaSet that a controller would have created."""
    meta, spec = deployment["metadata"], deployment["spec"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    notes = {"deployment.kubernetes.io/revision": str(number), "kubernetes.io/change-cause": "first"}
    own = {"name": f"web-{number}", "labels": {"app": "web"}, "ownerReferences": [owner], "annotations": notes}
    set_spec = {"replicas": 0, "selector": spec["selector"], "template": spec["template"]}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": own, "spec": set_spec}


def test_autoscale(web: Kubectl) -> None:
    output = web("autoscale", "deployment", "web", "--min=2", "--max=6", "--cpu-percent=70")
    assert output == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    head, row = web.table("get", "hpa", "web")
    assert head == ["NAME", "REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS", "AGE"]
    assert row[:5] == ["web", "Deployment/web", "cpu: <unknown>/70%", "2", "6"]
    assert row[5] in ("0", "2")  # before and after the controller has reconciled
    assert "the metric" not in web("describe", "hpa", "web")


def test_create_job_from_cron_job(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl.require_version(1, 21)
    words = ("nightly", "--image=busybox", "--schedule=1 2 * * *", "--", "true")
    assert kubectl("create", "cronjob", *words) == "cronjob.batch/nightly created\n"
    assert kubectl("create", "job", "now", "--from=cronjob/nightly") == "job.batch/now created\n"
    job = objects.get("job/now")
    assert job["metadata"]["ownerReferences"][0]["name"] == "nightly"
    assert job["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}


def test_invalid_cron_schedule(kubectl: Kubectl) -> None:
    kubectl.require_version(1, 21)
    error = kubectl.fails("create", "cronjob", "nightly", "--image=busybox", "--schedule=at night")
    assert error.endswith('spec.schedule: Invalid value: "at night": expected exactly 5 fields, found 2: [at night]\n')


def test_create_disruption_budget(kubectl: Kubectl) -> None:
    kubectl.require_version(1, 21)
    kubectl("create", "poddisruptionbudget", "few", "--selector=app=web", "--min-available=50%")
    assert kubectl.table("get", "pdb", "few")[1][:4] == ["few", "50%", "N/A", "0"]


@pytest.mark.parametrize(
    ("manifest", "name", "head", "row"),
    [
        (
            DEPLOYMENT.replace("replicas: 2", "replicas: 0"),
            "deployment/web",
            "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR",
            "web 0/0 0 0 * main nginx:1.27 app=web",
        ),
        (STATEFUL_SET, "statefulset/db", "NAME READY AGE CONTAINERS IMAGES", "db 0/0 * main postgres:17"),
        (
            DAEMON_SET,
            "daemonset/agent",
            "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE_SELECTOR AGE CONTAINERS IMAGES SELECTOR",
            "agent 0 0 0 0 0 none=such * main agent:1 app=agent",
        ),
        (
            REPLICA_SET,
            "replicaset/old",
            "NAME DESIRED CURRENT READY AGE CONTAINERS IMAGES SELECTOR",
            "old 0 0 0 * main nginx:1 app=old",
        ),
        (
            REPLICATION_CONTROLLER,
            "rc/older",
            "NAME DESIRED CURRENT READY AGE CONTAINERS IMAGES SELECTOR",
            "older 0 0 0 * main nginx:1 app=older",
        ),
    ],
    ids=["deployment", "statefulset", "daemonset", "replicaset", "replicationcontroller"],
)
def test_wide_tables_of_workloads(
    kubectl: Kubectl, objects: NamespaceObjects, manifest: str, name: str, head: str, row: str
) -> None:
    objects.apply(manifest)
    rows = kubectl.table("get", name, "-o", "wide")
    assert [cell.replace(" ", "_") for cell in rows[0]] == head.split()
    assert [
        cell if expected != "*" else "*" for cell, expected in zip(rows[1], row.split(), strict=True)
    ] == row.split()


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        (DEPLOYMENT, "deployment/web"),
        (STATEFUL_SET, "statefulset/db"),
        (DAEMON_SET, "daemonset/agent"),
        (REPLICA_SET, "replicaset/old"),
        (REPLICATION_CONTROLLER, "rc/older"),
    ],
    ids=["deployment", "statefulset", "daemonset", "replicaset", "replicationcontroller"],
)
def test_describe_workloads(kubectl: Kubectl, objects: NamespaceObjects, manifest: str, name: str) -> None:
    objects.apply(manifest)
    output = kubectl("describe", name)
    assert re.search(rf"^Name: +{name.partition('/')[2]}$", output, re.M)
    assert re.search(r"^Selector: +app=", output, re.M)


def test_describe_jobs_and_disruption_budgets(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl.require_version(1, 27)
    objects.apply([CRON_JOB, JOB, DISRUPTION_BUDGET])
    assert re.search(r"^Schedule: +@daily$", kubectl("describe", "cronjob", "nightly"), re.M)
    assert re.search(r"^Completions: +1$", kubectl("describe", "job", "once"), re.M)
    assert re.search(r"^Max unavailable: +1$", kubectl("describe", "pdb", "few"), re.M)


def test_wide_tables_of_jobs(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl.require_version(1, 21)
    objects.apply([CRON_JOB, JOB])
    row = kubectl.table("get", "cronjob", "nightly", "-o", "wide")[1]
    assert row[:6] == ["nightly", "@daily", "<none>", "False", "0", "<none>"]
    assert row[7:] == ["nightly", "busybox:1", "<none>"]
    head, row = kubectl.table("get", "job", "once", "-o", "wide")
    assert head == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert (row[0], row[2], row[-3], row[-2]) == ("once", "0/1", "once", "busybox:1")
    assert row[-1].startswith("batch.kubernetes.io/controller-uid=")


@pytest.mark.parametrize(
    "manifest",
    [DEPLOYMENT, STATEFUL_SET, DAEMON_SET, REPLICA_SET, REPLICATION_CONTROLLER],
    ids=["deployment", "statefulset", "daemonset", "replicaset", "replicationcontroller"],
)
def test_second_apply_changes_nothing(kubectl: Kubectl, objects: NamespaceObjects, manifest: str) -> None:
    """kubectl may print "configured", since the defaults in volume claim templates look like changes to it."""
    output = kubectl("apply", "-f", "-", stdin=manifest)
    assert output.endswith("created\n")
    target = output.split()[0]
    before = objects.get(target)["spec"]
    assert kubectl("apply", "-f", "-", stdin=manifest).endswith(("unchanged\n", "configured\n"))
    after = objects.get(target)
    assert (after["spec"], after["metadata"]["generation"]) == (before, 1)
