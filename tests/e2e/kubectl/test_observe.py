"""kubectl wait, events, describe, exec, logs and top."""

from sampan.api.types.core_v1 import Event, Pod
from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import CONFIG_MAP, POD, SERVICE
from tests.e2e.kubectl.namespace_objects import NamespaceObjects


class TestWait:
    def test_for_a_condition(
        self, kubectl: Kubectl, objects: NamespaceObjects, sampan_cluster: Cluster, sampan_namespace: str
    ) -> None:
        objects.apply(POD)
        with kubectl.running("wait", "--for=condition=Ready", "pod/web", "--timeout=60s") as waiting:
            patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            pods = sampan_cluster.client.for_kind(Pod)
            sampan_cluster.run(pods.patch("web", patch, sampan_namespace, subresource="status"))
            assert waiting.stdout is not None
            assert waiting.stdout.read() == "pod/web condition met\n"
            assert waiting.wait(60) == 0

    def test_for_a_jsonpath_value(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        kubectl.require_version(1, 24)
        objects.apply(POD)
        output = kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/web", "--timeout=60s")
        assert output == "pod/web condition met\n"

    def test_timeout_is_an_error(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        objects.apply(POD)
        error = kubectl.fails("wait", "--for=condition=Ready", "pod/web", "--timeout=1s")
        assert error == "error: timed out waiting for the condition on pods/web\n"

    def test_for_deletion(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        kubectl.require_version(1, 24)  # older versions fail if the object is already deleted
        text = CONFIG_MAP.replace("name: settings", "name: settings\n  finalizers: [example.com/hold]")
        objects.apply(text)
        kubectl("delete", "configmap", "settings", "--wait=false")
        with kubectl.running("wait", "--for=delete", "configmap/settings", "--timeout=60s") as waiting:
            kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
            assert waiting.wait(60) == 0

    def test_missing_object_is_an_error(self, kubectl: Kubectl) -> None:
        error = kubectl.fails("wait", "--for=condition=Ready", "pod/nobody", "--timeout=1s")
        assert error == 'Error from server (NotFound): pods "nobody" not found\n'


def create_event(cluster: Cluster, namespace: str) -> None:
    event = Event(reason="Pulled", message="Image pulled", type="Normal", count=1)
    event.metadata.name = "web.1"
    event.involvedObject.kind, event.involvedObject.name = "Pod", "web"
    event.involvedObject.namespace = namespace
    cluster.run(cluster.client.for_kind(Event).create(event, namespace))


def test_get_events(kubectl: Kubectl, sampan_cluster: Cluster, sampan_namespace: str) -> None:
    create_event(sampan_cluster, sampan_namespace)
    head, row = kubectl.table("get", "events")
    assert head == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row[1:] == ["Normal", "Pulled", "pod/web", "Image pulled"]


def test_events_command(kubectl: Kubectl, sampan_cluster: Cluster, sampan_namespace: str) -> None:
    kubectl.require_version(1, 26)
    create_event(sampan_cluster, sampan_namespace)
    head, row = kubectl.table("events")
    assert head == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row[1:] == ["Normal", "Pulled", "Pod/web", "Image pulled"]


def test_describe_pod(
    kubectl: Kubectl, objects: NamespaceObjects, sampan_cluster: Cluster, sampan_namespace: str
) -> None:
    objects.apply(POD)
    uid = objects.get("pod/web")["metadata"]["uid"]
    event = Event(reason="Pulled", message="Image pulled", type="Normal", count=1)
    event.metadata.name = "web.1"
    event.involvedObject.kind, event.involvedObject.name, event.involvedObject.uid = "Pod", "web", uid
    event.involvedObject.namespace = sampan_namespace
    sampan_cluster.run(sampan_cluster.client.for_kind(Event).create(event, sampan_namespace))
    text = kubectl("describe", "pod", "web")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in ("Name: web", f"Namespace: {sampan_namespace}", "Status: Pending", "QoS Class: BestEffort"):
        assert line in lines
    assert "Image: nginx:1.27" in lines
    assert any(line.endswith("Image pulled") for line in lines)


def test_describe_a_namespace(kubectl: Kubectl, sampan_namespace: str) -> None:
    lines = kubectl("describe", "namespace", sampan_namespace).splitlines()
    assert lines[0].split() == ["Name:", sampan_namespace]
    assert "No resource quota." in lines


def test_describe_a_service(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(SERVICE)
    lines = [" ".join(line.split()) for line in kubectl("describe", "service", "web").splitlines()]
    assert {"Selector: app=web", "IP: None", "Port: <unset> 80/TCP", "TargetPort: 80/TCP"} <= {*lines}


def test_logs_of_a_missing_pod(kubectl: Kubectl) -> None:
    assert 'pods "nobody" not found' in kubectl.fails("logs", "nobody")


def test_logs_of_an_unscheduled_pod_are_empty(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(POD)
    assert kubectl("logs", "web") == ""


def test_exec_in_a_missing_pod(kubectl: Kubectl) -> None:
    assert kubectl.fails("exec", "nobody", "--", "ls") == 'Error from server (NotFound): pods "nobody" not found\n'


def test_exec_in_an_unscheduled_pod(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(POD)
    assert "pod web does not have a host assigned" in kubectl.fails("exec", "web", "--", "ls")


def test_top_pods_without_metrics(kubectl: Kubectl) -> None:
    assert "No resources found" in kubectl.run("top", "pods").stderr
