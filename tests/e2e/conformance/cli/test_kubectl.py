"""The conformance descriptions of sig-cli, each a test of the real kubectl whose first line is its name."""

import json
import re
from collections.abc import Sequence

import pytest

from tests.e2e.conformance.storage.real_node import IMAGE
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import DEPLOYMENT, yaml

OTHER_IMAGE = f"{IMAGE}:latest"
"""Another name of the same."""
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


def started(kubectl: Kubectl, replicas: int = 1) -> list[str]:
    """The names of the controller's pods, once so many are ready and there are no others."""
    condition = f"jsonpath={{.status.readyReplicas}}={replicas}"
    kubectl("wait", "rc/agnhost-primary", "--for", condition, "--timeout=60s")
    pods = kubectl.json("get", "pods", "-l", "app=agnhost")["items"]
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert [pod["status"]["phase"] for pod in staying] == ["Running"] * replicas
    return [pod["metadata"]["name"] for pod in staying]


def runs(kubectl: Kubectl, *words: str) -> None:
    kubectl("run", POD, f"--image={IMAGE}", f"--labels=run={POD}", *words, "--command", "--", "sleep", "1000")
    kubectl("wait", f"pod/{POD}", "--for=condition=Ready", "--timeout=60s")


def image(kubectl: Kubectl) -> str:
    return kubectl.jsonpath("get", "pod", POD, "{.spec.containers[*].image}")


def has(output: str, *lines: Sequence[str]) -> None:
    """Each is in the output: a line with these words, in this order; and the lines are in this order too."""
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
    has(done.stdout, ["-", "image: nginx:1.27"], ["+", "image: busybox:1"])


def test_dry_run(kubectl_here: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl server-side dry-run should check if kubectl can dry-run update Pods
    [Conformance]"""
    runs(kubectl_here)
    patch = json.dumps({"spec": {"containers": [{"name": POD, "image": OTHER_IMAGE}]}})
    output = kubectl_here("patch", "pod", POD, "-p", patch, "--dry-run=server", "-o", "json")
    assert json.loads(output)["spec"]["containers"][0]["image"] == OTHER_IMAGE
    assert image(kubectl_here) == IMAGE


def test_run(kubectl_here: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl run pod should create a pod from an image when restart is Never
    [Conformance]"""
    runs(kubectl_here, "--restart=Never")
    spec = kubectl_here.json("get", "pod", POD)["spec"]
    assert [container["image"] for container in spec["containers"]] == [IMAGE]
    assert spec["restartPolicy"] == "Never"


def test_replace(kubectl_here: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl replace should update a single-container pod's image [Conformance]"""
    runs(kubectl_here)
    value = kubectl_here.json("get", "pod", POD)
    value["spec"]["containers"][0]["image"] = OTHER_IMAGE
    kubectl_here("replace", "-f", "-", stdin=json.dumps(value))
    assert image(kubectl_here) == OTHER_IMAGE
    value["spec"]["containers"][0]["image"] = IMAGE
    kubectl_here("replace", "--force", "--grace-period=0", "-f", "-", stdin=json.dumps(value))
    assert image(kubectl_here) == IMAGE
    assert kubectl_here.jsonpath("get", "pod", POD, "{.metadata.uid}") != value["metadata"]["uid"]


def test_label(kubectl_here: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl label should update the label on a resource [Conformance]"""
    runs(kubectl_here)
    kubectl_here("label", "pods", POD, "testing-label=testing-label-value")
    assert "testing-label-value" in kubectl_here("get", "pod", POD, "-L", "testing-label")
    assert POD in kubectl_here("get", "pod", "-l", "testing-label=testing-label-value", "-o", "name")
    kubectl_here("label", "pods", POD, "testing-label-")
    assert "testing-label-value" not in kubectl_here("get", "pod", POD, "-L", "testing-label")
    assert kubectl_here("get", "pod", "-l", "testing-label", "-o", "name") == ""


def test_patch(kubectl_here: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl patch should add annotations for pods in rc [Conformance]"""
    kubectl_here("create", "-f", "-", stdin=PRIMARY)
    for name in started(kubectl_here):
        kubectl_here("patch", "pod", name, "-p", '{"metadata":{"annotations":{"x":"y"}}}')
        assert kubectl_here.jsonpath("get", "pod", name, "{.metadata.annotations.x}") == "y"


def test_describe(kubectl_here: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl describe should check if kubectl describe prints relevant information for rc and
    pods [Conformance]"""
    namespace = namespace_of(kubectl_here)
    kubectl_here("create", "-f", "-", stdin=PRIMARY)
    kubectl_here("create", "-f", "-", stdin=SERVICE)
    (name,) = started(kubectl_here)
    head = (["Name:", "agnhost-primary"], ["Namespace:", namespace])
    labels = (["Labels:", "app=agnhost"], ["role=primary"], ["Annotations:"])
    has(
        kubectl_here("describe", "pod", name),
        *(*head, ["Node:", "node-0"], *labels, ["Status:", "Running"], ["IP:"]),
        *(["Controlled By:", "ReplicationController/agnhost-primary"], ["Image:", IMAGE], ["State:", "Running"]),
        ["QoS Class:", "BestEffort"],
    )
    has(
        kubectl_here("describe", "rc", "agnhost-primary"),
        *(*head, ["Selector:", "app=agnhost,role=primary"], *labels, ["Replicas:", "1 current", "1 desired"]),
        *(["Pods Status:", "1 Running", "0 Waiting", "0 Succeeded", "0 Failed"], ["Pod Template:"], ["Image:", IMAGE]),
        ["Events:"],
    )
    has(
        kubectl_here("describe", "service", "agnhost-primary"),
        *(*head, *labels, ["Selector:", "app=agnhost", "role=primary"], ["Type:", "ClusterIP"], ["IP:"]),
        *(["Port:", "<unset>", "6379/TCP"], ["Endpoints:", ":6379"], ["Session Affinity:", "None"]),
    )
    has(
        kubectl_here("describe", "node", "node-0"),
        *(["Name:", "node-0"], ["Labels:"], ["Annotations:"], ["CreationTimestamp:"], ["Conditions:"]),
        ["Type", "Status", "LastHeartbeatTime", "LastTransitionTime", "Reason", "Message"],
        *(["Addresses:"], ["Capacity:"], ["Kernel Version:"], ["OS Image:"], ["Container Runtime Version:"]),
        *(["Kubelet Version:"], ["Pods:"]),
    )
    status = (["Labels:"], ["Annotations:"], ["Status:", "Active"])
    has(kubectl_here("describe", "namespace", namespace), ["Name:", namespace], *status)


def test_expose(kubectl_here: Kubectl) -> None:
    """[sig-cli] Kubectl client Kubectl expose should create services for rc [Conformance]"""
    kubectl_here("create", "-f", "-", stdin=PRIMARY)
    (name,) = started(kubectl_here)
    for what, service, port in (("rc/agnhost-primary", "rm2", 1234), ("service/rm2", "rm3", 2345)):
        kubectl_here("expose", what, f"--name={service}", f"--port={port}", "--target-port=6379")
        (shown,) = kubectl_here.json("get", "service", service)["spec"]["ports"]
        assert (shown["port"], shown["targetPort"]) == (port, 6379)
        slices = ("endpointslices", "-l", f"kubernetes.io/service-name={service}")
        kubectl_here("wait", *slices, "--for=jsonpath={.ports[0].port}=6379", "--timeout=60s")
        (endpoint_slice,) = kubectl_here.json("get", *slices)["items"]
        assert [endpoint["targetRef"]["name"] for endpoint in endpoint_slice["endpoints"]] == [name]
        response = f"/api/v1/namespaces/{namespace_of(kubectl_here)}/services/{service}:{port}/proxy/data.json"
        assert json.loads(kubectl_here("get", "--raw", response)) == {"image": "nautilus.jpg"}


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((2,), id="[sig-cli] Kubectl client Update Demo should create and stop a replication controller"),
        pytest.param((2, 1, 2), id="[sig-cli] Kubectl client Update Demo should scale a replication controller"),
    ],
)
def test_update_demo(kubectl_here: Kubectl, sizes: Sequence[int]) -> None:
    namespace = namespace_of(kubectl_here)
    kubectl_here("create", "-f", "-", stdin=PRIMARY.replace("replicas: 1", f"replicas: {sizes[0]}"))
    for size in sizes:
        kubectl_here("scale", "rc", "agnhost-primary", f"--replicas={size}", "--timeout=60s")
        for name in started(kubectl_here, size):
            place = f"/api/v1/namespaces/{namespace}/pods/{name}:6379/proxy/data.json"
            assert json.loads(kubectl_here("get", "--raw", place)) == {"image": "nautilus.jpg"}
            assert kubectl_here.jsonpath("get", "pod", name, "{.spec.containers[*].image}") == IMAGE
    kubectl_here("delete", "-f", "-", "--cascade=foreground", stdin=PRIMARY)
    assert kubectl_here("get", "rc,pods", "-o", "name") == ""
