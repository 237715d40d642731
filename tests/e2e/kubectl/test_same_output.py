"""`sampan kubectl` prints what kubectl prints.

Every command is run twice, by kubectl in one namespace and by Sampan in another; ages, uids, versions, addresses and
the name of the namespace are masked before both outputs are compared.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Event
from sampan.cli.main import cli
from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl, find
from tests.e2e.kubectl.manifests import CONFIG_MAP, DEPLOYMENT, POD, SERVICE
from tests.eventually import wait_until

VARYING_TEXTS = [
    (re.compile(r"kube-api-access-\w{5}"), "kube-api-access-XXXXX"),
    (re.compile(r"\b(?:\d+[dhms]){1,2}(?=[ )]|$)", re.MULTILINE), "AGE"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r'(resourceVersion"?: "|Resource Version: +)\d+'), r"\1VERSION"),
    (re.compile(r"\b10\.96\.\d+\.\d+"), "ADDRESS"),
    (re.compile(r"\b3[0-2]\d{3}/"), "NODEPORT/"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000"), "TIME"),
    (re.compile(r"(deleted) from \S+ namespace"), r"\1"),
    (re.compile(r"^warning: ", re.MULTILINE), "Warning: "),
]

CommandResult = tuple[int, str, str]

SPEC = """
  schedulerName: nobody
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{key: a, operator: Exists}, {key: b, value: c, effect: NoExecute, tolerationSeconds: 5}]
  initContainers:
  - {name: first, image: busybox, command: [sh, -c, "echo 1\\necho 2"], args: [x]}
  containers:
  - name: main
    image: nginx:1.27
    ports: [{containerPort: 8080}, {containerPort: 53, protocol: UDP}]
    resources: {limits: {cpu: 100m, memory: 64Mi}, requests: {cpu: 50m}}
    livenessProbe: {httpGet: {path: /live, port: 8080}, initialDelaySeconds: 3}
    readinessProbe: {tcpSocket: {port: 8080}}
    startupProbe: {exec: {command: [cat, /x]}}
    envFrom: [{configMapRef: {name: mixed}}, {prefix: X_, secretRef: {name: plain, optional: true}}]
    env:
    - {name: A, value: "1"}
    - {name: EMPTY}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: plain, key: password}}}
    - {name: MAYBE, valueFrom: {configMapKeyRef: {name: mixed, key: a, optional: true}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    volumeMounts: [{name: data, mountPath: /data}, {name: keys, mountPath: /keys, readOnly: true, subPath: a}]
  - {name: side, image: busybox}
  volumes:
  - {name: data, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: keys, secret: {secretName: plain}}
  - {name: settings, configMap: {name: mixed, optional: true}}
  - {name: host, hostPath: {path: /tmp, type: Directory}}
  - {name: claim, persistentVolumeClaim: {claimName: claim}}
  - {name: about, downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: both, projected: {sources: [{secret: {name: plain}}, {configMap: {name: mixed}}]}}
"""
DESCRIBED = f"""
apiVersion: v1
kind: Pod
metadata: {{name: busy, labels: {{app: busy}}}}
spec:{SPEC}---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: busy}}
spec:
  selector: {{matchLabels: {{app: deployed}}}}
  replicas: 0
  template:
    metadata: {{labels: {{app: deployed}}, annotations: {{x: z}}}}
    spec:{SPEC.replace(chr(10), chr(10) + "    ")}
---
apiVersion: v1
kind: Secret
metadata: {{name: plain, labels: {{app: web, tier: db}}, annotations: {{note: hello}}}}
data: {{password: aHVudGVyMg==}}
---
apiVersion: v1
kind: Secret
metadata: {{name: empty}}
data: {{A.b: ""}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: mixed, labels: {{a: b}}}}
data: {{Upper.case: "x\\ny\\n"}}
binaryData: {{bin: AAEC}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: none}}
---
apiVersion: v1
kind: Service
metadata: {{name: exposed, labels: {{app: web}}}}
spec:
  selector: {{app: web, tier: front}}
  type: NodePort
  sessionAffinity: ClientIP
  ports: [{{name: http, port: 80, targetPort: 8080}}, {{name: m, port: 9090, targetPort: metrics, protocol: UDP}}]
---
apiVersion: v1
kind: Service
metadata: {{name: lonely}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {{name: quota}}
spec: {{hard: {{pods: "10", requests.cpu: "4"}}}}
---
apiVersion: v1
kind: LimitRange
metadata: {{name: limits}}
spec: {{limits: [{{type: Container, default: {{cpu: 500m}}, max: {{cpu: "1"}}}}]}}
"""


class Both:
    def __init__(self, *, kubectl: Kubectl, ours: Path, namespaces: tuple[str, str]) -> None:
        self.kubectl, self._ours, self.namespaces = kubectl, ours, namespaces

    def __call__(self, *words: str, stdin: str = "") -> CommandResult:
        """Return exit code, standard output and standard error of kubectl, after a check that those of Sampan are
        equal."""
        real = self.kubectl.run(*words, stdin=stdin)
        expected = self.plain(real.returncode, real.stdout, real.stderr)
        own = self.ours(*words, stdin=stdin)
        assert own == expected, f"kubectl:\n{expected}\nsampan kubectl:\n{own}"
        return expected

    def ours(self, *words: str, stdin: str = "") -> CommandResult:
        """Return the result of Sampan alone."""
        result = CliRunner().invoke(cli, ["kubectl", "--kubeconfig", str(self._ours), *words], input=stdin)
        return self.plain(result.exit_code, result.stdout, result.stderr)

    def plain(self, code: int, out: str, err: str) -> CommandResult:
        return code, self._masked(out), self._masked(err)

    def _masked(self, text: str) -> str:
        for name in self.namespaces:
            text = text.replace(name, "NAMESPACE")
        for pattern, put in VARYING_TEXTS:
            text = pattern.sub(put, text)
        return text


@pytest.fixture
def both(sampan_cluster: Cluster, kubectl_home: Path) -> Iterator[Both]:
    program = find()
    if program is None:
        pytest.skip("there is no kubectl here")
    with sampan_cluster.namespace("same") as first, sampan_cluster.namespace("same") as other:
        kubectl = Kubectl(program=program, kubeconfig=sampan_cluster.kubeconfig_for(first), home=kubectl_home)
        kubectl.needs(1, 27)  # the wording of older versions differs
        yield Both(kubectl=kubectl, ours=sampan_cluster.kubeconfig_for(other), namespaces=(first, other))


@pytest.fixture
def with_objects(both: Both) -> Both:
    """Both commands with a pod, a service and a ConfigMap in each namespace."""
    code, out, _ = both("create", "-f", "-", stdin=f"{POD}---\n{CONFIG_MAP}---\n{SERVICE}")
    assert (code, out) == (0, "pod/web created\nconfigmap/settings created\nservice/web created\n")
    return both


@pytest.mark.parametrize(
    "words",
    [
        "get pods",
        "get pod web",
        "get po/web",
        "get pods -o wide",
        "get pods -o name",
        "get pods -l app=web",
        "get pods -l app=none",
        "get pods,configmaps",
        "get pod/web configmap/settings",
        "get configmap settings -o yaml",
        "get configmap settings -o json",
        "get pod web -o yaml",
        "get pods -o json",
        "get pods,services -o yaml",
        "get services",
        "get svc -o wide",
        "get configmaps",
        "get serviceaccounts",
        "get secrets",
        "get namespace default kube-system",
        "get priorityclasses",
        "get service kubernetes -n default",
        "get pod nobody",
        "get pod web nobody",
        "get nonsense",
        "get",
        "get pods -l app=(",
    ],
)
def test_get(with_objects: Both, words: str) -> None:
    with_objects(*words.split())


class TestCreate:
    def test_existing_object(self, both: Both) -> None:
        both("create", "-f", "-", stdin=CONFIG_MAP)
        code, _, err = both("create", "-f", "-", stdin=CONFIG_MAP)
        assert (code, err) == (
            1,
            'Error from server (AlreadyExists): error when creating "STDIN": configmaps "settings" already exists\n',
        )

    @pytest.mark.parametrize(
        "text",
        [
            POD.replace("name: web", "name: Not_Good").replace("containerPort: 80", "containerPort: 99999"),
            POD.replace("image: nginx:1.27", "image: ''"),
            CONFIG_MAP.replace("\ndata:", "\ndada:"),
            CONFIG_MAP.replace("ConfigMap", "Nonsense"),
            CONFIG_MAP.replace("kind: ConfigMap\n", ""),
            CONFIG_MAP.replace("apiVersion: v1\n", ""),
            "a: [",
            "",
        ],
        ids=["two faults", "one fault", "unknown field", "unknown kind", "no kind", "no version", "no YAML", "empty"],
    )
    def test_invalid_manifest(self, both: Both, text: str) -> None:
        assert both("create", "-f", "-", stdin=text)[0] == 1

    def test_missing_file(self, both: Both) -> None:
        assert both("create", "-f", "/nowhere.yaml")[0] == 1

    def test_dry_run(self, both: Both) -> None:
        both("create", "-f", "-", "--dry-run=server", stdin=CONFIG_MAP)
        both("get", "configmap", "settings")


class TestApply:
    @pytest.mark.parametrize("text", [CONFIG_MAP, POD, DEPLOYMENT], ids=["configmap", "pod", "deployment"])
    def test_created_and_unchanged(self, both: Both, text: str) -> None:
        both("apply", "-f", "-", stdin=text)
        both("apply", "-f", "-", stdin=text)

    def test_configured(self, both: Both) -> None:
        both("apply", "-f", "-", stdin=CONFIG_MAP)
        both("apply", "-f", "-", stdin=CONFIG_MAP.replace("  size: small\n", "  shape: round\n"))
        both("get", "configmap", "settings", "-o", "yaml")

    def test_apply_after_create(self, both: Both) -> None:
        both("create", "-f", "-", stdin=CONFIG_MAP)
        both("apply", "-f", "-", stdin=CONFIG_MAP)

    def test_immutable_field(self, both: Both) -> None:
        both("apply", "-f", "-", stdin=POD)
        assert both("apply", "-f", "-", stdin=POD.replace("name: main", "name: other"))[0] == 1

    def test_dry_run(self, both: Both) -> None:
        both("apply", "-f", "-", "--dry-run=server", stdin=CONFIG_MAP)


class TestDelete:
    @pytest.mark.parametrize(
        "words",
        [
            "delete pod web",
            "delete pod/web service/web",
            "delete pods -l app=web",
            "delete pods -l app=none",
            "delete pods --all",
            "delete pod nobody",
            "delete pod web nobody",
            "delete pod nobody --ignore-not-found",
            "delete pods",
            "delete pod web --force",
            "delete pod web --now",
            "delete nonsense x",
        ],
    )
    def test_delete_arguments(self, with_objects: Both, words: str) -> None:
        with_objects(*words.split())
        with_objects("get", "pods,services")

    def test_by_file(self, with_objects: Both) -> None:
        with_objects("delete", "-f", "-", stdin=CONFIG_MAP)
        assert with_objects("delete", "-f", "-", stdin=CONFIG_MAP)[0] == 1


class TestDescribe:
    LEASE = """
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: mine
  labels: {app: web, tier: front}
  annotations: {note: any text}
spec:
  holderIdentity: me
  leaseDurationSeconds: 30
"""

    def test_generic_describer(self, both: Both) -> None:
        both("create", "-f", "-", stdin=self.LEASE)
        both("describe", "lease", "mine")

    def test_several_objects(self, both: Both) -> None:
        both.kubectl.needs(1, 36)  # older versions show events here too
        both("create", "-f", "-", stdin=f"{self.LEASE}---{self.LEASE.replace('mine', 'other')}")
        both("describe", "leases")

    def test_with_events(self, both: Both, sampan_cluster: Cluster) -> None:
        both("create", "-f", "-", stdin=self.LEASE)
        for namespace in both.namespaces:
            lease = sampan_cluster.run(sampan_cluster.client.of(Lease).get("mine", namespace))
            for number in (1, 2):
                event = Event(reason="Happened", message=f"the {number}. time", type="Normal", count=number)
                event.metadata.name, event.metadata.namespace = f"mine.{number}", namespace
                event.source.component, event.source.host = "tester", "here" if number == 2 else ""
                event.lastTimestamp = event.firstTimestamp = lease.metadata.creationTimestamp
                about = event.involvedObject
                about.kind, about.name, about.namespace, about.uid = "Lease", "mine", namespace, lease.metadata.uid
                sampan_cluster.run(sampan_cluster.client.of(Event).create(event))
        both("describe", "lease", "mine")

    @pytest.mark.parametrize(
        "words",
        [
            "describe secret plain",
            "describe secret empty",
            "describe configmap mixed",
            "describe configmap none",
            "describe service exposed",
            "describe service lonely",
            "describe pod busy",
            "describe deployment busy",
            "describe namespace NAMESPACE",
            "describe namespace kube-node-lease",
        ],
    )
    def test_specific_describers(self, both: Both, words: str) -> None:
        both.kubectl.needs(1, 36)  # older versions show endpoints and projected volumes differently
        assert both("apply", "-f", "-", stdin=DESCRIBED)[0] == 0
        for look in (lambda *words: both.kubectl.run(*words).stdout, lambda *words: both.ours(*words)[1]):
            available = "NewReplicaSetAvailable"
            wait_until(lambda: available in look("get", "deployment", "busy", "-o", "yaml"), poll_s=0.05)  # noqa: B023
        names = iter(both.namespaces)
        real = both.kubectl.run(*words.replace("NAMESPACE", next(names)).split())
        own = both.ours(*words.replace("NAMESPACE", next(names)).split())
        code, out, err = both.plain(real.returncode, real.stdout, real.stderr)
        assert (own[0], own[2]) == (code, err)
        assert own[1].splitlines() == out.splitlines()

    @pytest.mark.parametrize("kind", ["Opaque", "bootstrap.kubernetes.io/token", "kubernetes.io/service-account-token"])
    def test_secret_data_is_not_shown(self, both: Both, kind: str) -> None:
        note = "{kubernetes.io/service-account.name: default}"
        secret = f"kind: Secret\napiVersion: v1\nmetadata: {{name: s, annotations: {note}}}\ntype: {kind}\n"
        both("apply", "-f", "-", stdin=f"{secret}stringData: {{password: hunter2, token: hunter22}}\n")
        for words in (["secret", "s"], ["secrets"], ["secret", "-l", "!none"]):
            code, out, _ = both.ours("describe", *words)
            assert (code, "hunter2" in out, "aHVudGVyMg" in out, "last-applied" in out) == (0, False, False, False)
            assert re.search(r"^password: +7 bytes$", out, re.MULTILINE)

    def test_rejected_apply_does_not_print_secret_data(self, both: Both) -> None:
        secret = "kind: Secret\napiVersion: v1\nmetadata: {name: s}\nimmutable: true\nstringData: {password: FIRST}\n"
        both("apply", "-f", "-", stdin=secret)
        code, _, err = both.ours("apply", "-f", "-", stdin=secret.replace("FIRST", "hunter2"))
        assert code == 1
        assert "immutable" in err
        assert "hunter2" not in err
        assert "aHVudGVyMg" not in err

    @pytest.mark.parametrize("words", ["describe", "describe nonsense", "describe lease nobody", "describe leases"])
    def test_errors(self, both: Both, words: str) -> None:
        both(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "get pod web -o=name",
        "get pod web -o=yaml",
        "get pod web --output=name",
        "get pod nobody --ignore-not-found=true",
        "delete pod web --wait=false",
        "delete pod nobody --ignore-not-found=false",
        "delete pod web --now=true --wait=true",
    ],
)
def test_flag_spellings(with_objects: Both, words: str) -> None:
    with_objects(*words.split())


def test_watch(kubectl: Kubectl, sampan_kubeconfig: Path, kubectl_home: Path) -> None:
    """Both commands watch the same namespace and print the same except for ages."""
    ours = Ours(program=sys.executable, kubeconfig=sampan_kubeconfig, home=kubectl_home)
    kubectl("create", "-f", "-", stdin=CONFIG_MAP)
    with kubectl.running("get", "configmaps", "-w") as real, ours.running("-m", "sampan", *WATCH) as own:
        assert _lines(own, 3) == _lines(real, 3)
        kubectl("patch", "configmap", "settings", "-p", '{"data":{"new":"1"}}')
        assert _lines(own, 1) == _lines(real, 1) == [["settings", "3"]]
        kubectl("delete", "configmap", "settings")
        assert _lines(own, 1) == _lines(real, 1) == [["settings", "3"]]


WATCH = ("kubectl", "get", "configmaps", "-w")


class Ours(Kubectl):
    """The Python interpreter instead of kubectl."""


def _lines(process: "subprocess.Popen[str]", count: int) -> list[list[str]]:
    assert process.stdout is not None
    return [process.stdout.readline().split()[:2] for _ in range(count)]
