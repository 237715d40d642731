"""Conformance tests of sig-cli, with the real kubectl. The first paragraph of a docstring is the official test name."""

import json
import re
from collections.abc import Sequence

import pytest

from tests.e2e.conformance.storage.real_node import IMAGE
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import DEPLOYMENT, yaml

OTHER_IMAGE = f"{IMAGE}:latest"
"""Another name of the same image."""
SERVES = (
    """mkdir /tmp/w && cd /tmp/w && echo '{"image": "nautilus.jpg"}' > data.json && exec python3 -m http.server 6379"""
)
PRIMARY = yaml(f"""
    apiVersion: v1
    kind: ReplicationController
    metadata:
      name: agnhost-primary
      labels: {{app: agnhost, role: primary}}
    spec:
      replicas: 1
      selector: {{app: agnhost, role: primary}}
      template:
        metadata:
          labels: {{app: agnhost, role: primary}}
        spec:
          terminationGracePeriodSeconds: 0
          containers:
          - name: agnhost-primary
            image: {IMAGE}
            command: [sh, -c, {json.dumps(SERVES)}]
            ports:
            - {{name: agnhost-server, containerPort: 6379}}
            readinessProbe: {{tcpSocket: {{port: 6379}}, periodSeconds: 1}}
    """)
SERVICE = yaml("""
    apiVersion: v1
    kind: Service
    metadata:
      name: agnhost-primary
      labels: {app: agnhost, role: primary}
    spec:
      selector: {app: agnhost, role: primary}
      ports:
      - port: 6379
        targetPort: agnhost-server
    """)
POD = "e2e-test-agnhost-pod"


def namespace_of(kubectl: Kubectl) -> str:
    return kubectl("config", "view", "--minify", "-o", "jsonpath={..namespace}")


def wait_for_replicas(kubectl: Kubectl, replicas: int = 1) -> list[str]:
    """Return the names of the pods of the controller once exactly this number is ready."""
    condition = f"jsonpath={{.status.readyReplicas}}={replicas}"
    kubectl("wait", "rc/agnhost-primary", "--for", condition, "--timeout=60s")
    pods = kubectl.json("get", "pods", "-l", "app=agnhost")["items"]
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert [pod["status"]["phase"] for pod in staying] == ["Running"] * replicas
    return [pod["metadata"]["name"] for pod in staying]


def run_pod(kubectl: Kubectl, *words: str) -> None:
    kubectl("run", POD, f"--image={IMAGE}", f"--labels=run={POD}", *words, "--command", "--", "sleep", "1000")
    kubectl("wait", f"pod/{POD}", "--for=condition=Ready", "--timeout=60s")


def image(kubectl: Kubectl) -> str:
    return kubectl.jsonpath("get", "pod", POD, "{.spec.containers[*].image}")


def check_lines_in_order(output: str, *lines: Sequence[str]) -> None:
    """Check that the output has lines with these words; words and lines must appear in this order."""
    left = output.splitlines()
    for words in lines:
        pattern = ".*".join(map(re.escape, words))
        at = next((number for number, line in enumerate(left) if re.search(pattern, line)), None)
        assert at is not None, f"{words} is not in\n{output}"
        left = left[at:]


def test_api_versions(kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl api-versions should check if v1 is in available api versions [Conformance]"""
    assert "v1" in kubectl("api-versions").splitlines()


def test_cluster_info(kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl cluster-info should check if Kubernetes control plane services is included in
    cluster-info [Conformance]"""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", kubectl("cluster-info"))
    assert re.search(r"Kubernetes control plane is running at https://127\.0\.0\.1:\d+", plain)


def test_version(kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl version should check is all data is printed [Conformance]"""
    plain = kubectl("version")
    version = kubectl.json("version")
    for name in ("client", "server"):
        about = version[f"{name}Version"]
        assert re.search(rf"{name.title()} Version: {re.escape(about['gitVersion'])}\n", plain)
        assert re.fullmatch(r"v\d\.\d+\.[\d\w.+-]+", about["gitVersion"])
        assert about["major"].isdigit()
        assert re.fullmatch(r"\d+\+?", about["minor"])
        assert about["gitCommit"]
        assert {"gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= about.keys()


def test_diff(kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl diff should check if kubectl diff finds a difference for Deployments
    [Conformance]"""
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl("diff", "-f", "-", stdin=DEPLOYMENT) == ""
    done = kubectl.run("diff", "-f", "-", stdin=DEPLOYMENT.replace("nginx:1.27", "busybox:1"))
    assert done.returncode == 1
    check_lines_in_order(done.stdout, ["-", "image: nginx:1.27"], ["+", "image: busybox:1"])


def test_dry_run(real_node_kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl server-side dry-run should check if kubectl can dry-run update Pods
    [Conformance]"""
    run_pod(real_node_kubectl)
    patch = json.dumps({"spec": {"containers": [{"name": POD, "image": OTHER_IMAGE}]}})
    output = real_node_kubectl("patch", "pod", POD, "-p", patch, "--dry-run=server", "-o", "json")
    assert json.loads(output)["spec"]["containers"][0]["image"] == OTHER_IMAGE
    assert image(real_node_kubectl) == IMAGE


def test_run(real_node_kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl run pod should create a pod from an image when restart is Never
    [Conformance]"""
    run_pod(real_node_kubectl, "--restart=Never")
    spec = real_node_kubectl.json("get", "pod", POD)["spec"]
    assert [container["image"] for container in spec["containers"]] == [IMAGE]
    assert spec["restartPolicy"] == "Never"


def test_replace(real_node_kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl replace should update a single-container pod's image [Conformance]"""
    run_pod(real_node_kubectl)
    value = real_node_kubectl.json("get", "pod", POD)
    value["spec"]["containers"][0]["image"] = OTHER_IMAGE
    real_node_kubectl("replace", "-f", "-", stdin=json.dumps(value))
    assert image(real_node_kubectl) == OTHER_IMAGE
    value["spec"]["containers"][0]["image"] = IMAGE
    real_node_kubectl("replace", "--force", "--grace-period=0", "-f", "-", stdin=json.dumps(value))
    assert image(real_node_kubectl) == IMAGE
    assert real_node_kubectl.jsonpath("get", "pod", POD, "{.metadata.uid}") != value["metadata"]["uid"]


def test_label(real_node_kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl label should update the label on a resource [Conformance]"""
    run_pod(real_node_kubectl)
    real_node_kubectl("label", "pods", POD, "testing-label=testing-label-value")
    assert "testing-label-value" in real_node_kubectl("get", "pod", POD, "-L", "testing-label")
    assert POD in real_node_kubectl("get", "pod", "-l", "testing-label=testing-label-value", "-o", "name")
    real_node_kubectl("label", "pods", POD, "testing-label-")
    assert "testing-label-value" not in real_node_kubectl("get", "pod", POD, "-L", "testing-label")
    assert real_node_kubectl("get", "pod", "-l", "testing-label", "-o", "name") == ""


def test_patch(real_node_kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl patch should add annotations for pods in rc [Conformance]"""
    real_node_kubectl("create", "-f", "-", stdin=PRIMARY)
    for name in wait_for_replicas(real_node_kubectl):
        real_node_kubectl("patch", "pod", name, "-p", '{"metadata":{"annotations":{"x":"y"}}}')
        assert real_node_kubectl.jsonpath("get", "pod", name, "{.metadata.annotations.x}") == "y"


def test_describe(real_node_kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl describe should check if kubectl describe prints relevant information for rc and
    pods [Conformance]"""
    namespace = namespace_of(real_node_kubectl)
    real_node_kubectl("create", "-f", "-", stdin=PRIMARY)
    real_node_kubectl("create", "-f", "-", stdin=SERVICE)
    (name,) = wait_for_replicas(real_node_kubectl)
    head = (["Name:", "agnhost-primary"], ["Namespace:", namespace])
    labels = (["Labels:", "app=agnhost"], ["role=primary"], ["Annotations:"])
    check_lines_in_order(
        real_node_kubectl("describe", "pod", name),
        *(*head, ["Node:", "node-0"], *labels, ["Status:", "Running"], ["IP:"]),
        *(["Controlled By:", "ReplicationController/agnhost-primary"], ["Image:", IMAGE], ["State:", "Running"]),
        ["QoS Class:", "BestEffort"],
    )
    check_lines_in_order(
        real_node_kubectl("describe", "rc", "agnhost-primary"),
        *(*head, ["Selector:", "app=agnhost,role=primary"], *labels, ["Replicas:", "1 current", "1 desired"]),
        *(["Pods Status:", "1 Running", "0 Waiting", "0 Succeeded", "0 Failed"], ["Pod Template:"], ["Image:", IMAGE]),
        ["Events:"],
    )
    check_lines_in_order(
        real_node_kubectl("describe", "service", "agnhost-primary"),
        *(*head, *labels, ["Selector:", "app=agnhost", "role=primary"], ["Type:", "ClusterIP"], ["IP:"]),
        *(["Port:", "<unset>", "6379/TCP"], ["Endpoints:", ":6379"], ["Session Affinity:", "None"]),
    )
    check_lines_in_order(
        real_node_kubectl("describe", "node", "node-0"),
        *(["Name:", "node-0"], ["Labels:"], ["Annotations:"], ["CreationTimestamp:"], ["Conditions:"]),
        ["Type", "Status", "LastHeartbeatTime", "LastTransitionTime", "Reason", "Message"],
        *(["Addresses:"], ["Capacity:"], ["Kernel Version:"], ["OS Image:"], ["Container Runtime Version:"]),
        *(["Kubelet Version:"], ["Pods:"]),
    )
    status = (["Labels:"], ["Annotations:"], ["Status:", "Active"])
    check_lines_in_order(real_node_kubectl("describe", "namespace", namespace), ["Name:", namespace], *status)


def test_expose(real_node_kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl expose should create services for rc [Conformance]"""
    real_node_kubectl("create", "-f", "-", stdin=PRIMARY)
    (name,) = wait_for_replicas(real_node_kubectl)
    for what, service, port in (("rc/agnhost-primary", "rm2", 1234), ("service/rm2", "rm3", 2345)):
        real_node_kubectl("expose", what, f"--name={service}", f"--port={port}", "--target-port=6379")
        (shown,) = real_node_kubectl.json("get", "service", service)["spec"]["ports"]
        assert (shown["port"], shown["targetPort"]) == (port, 6379)
        slices = ("endpointslices", "-l", f"kubernetes.io/service-name={service}")
        real_node_kubectl("wait", *slices, "--for=jsonpath={.ports[0].port}=6379", "--timeout=60s")
        (endpoint_slice,) = real_node_kubectl.json("get", *slices)["items"]
        assert [endpoint["targetRef"]["name"] for endpoint in endpoint_slice["endpoints"]] == [name]
        response = f"/api/v1/namespaces/{namespace_of(real_node_kubectl)}/services/{service}:{port}/proxy/data.json"
        assert json.loads(real_node_kubectl("get", "--raw", response)) == {"image": "nautilus.jpg"}


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((2,), id="[sig-cli] Kubectl client Update Demo should create and stop a replication controller"),
        pytest.param((2, 1, 2), id="[sig-cli] Kubectl client Update Demo should scale a replication controller"),
    ],
)
def test_update_demo(real_node_kubectl: Kubectl, sizes: Sequence[int]) -> None:
    namespace = namespace_of(real_node_kubectl)
    real_node_kubectl("create", "-f", "-", stdin=PRIMARY.replace("replicas: 1", f"replicas: {sizes[0]}"))
    for size in sizes:
        real_node_kubectl("scale", "rc", "agnhost-primary", f"--replicas={size}", "--timeout=60s")
        for name in wait_for_replicas(real_node_kubectl, size):
            path = f"/api/v1/namespaces/{namespace}/pods/{name}:6379/proxy/data.json"
            assert json.loads(real_node_kubectl("get", "--raw", path)) == {"image": "nautilus.jpg"}
            assert real_node_kubectl.jsonpath("get", "pod", name, "{.spec.containers[*].image}") == IMAGE
    real_node_kubectl("delete", "-f", "-", "--cascade=foreground", stdin=PRIMARY)
    assert real_node_kubectl("get", "rc,pods", "-o", "name") == ""
