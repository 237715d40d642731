"""Everyday lines of `kubectl get` and `create`, few enough to compare them with every version of kubectl."""

from tests.e2e.kubectl.comparison import Area, Line
from tests.e2e.kubectl.manifests import CONFIG_MAP, POD, SERVICE

_LEASE = """
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: mine, labels: {app: web, tier: front}, annotations: {note: any text}}
spec: {holderIdentity: me, leaseDurationSeconds: 30}
"""


def _create(text: str) -> Line:
    return Line("create -f -", stdin=text)


AREA = Area(
    setup=f"{POD}---\n{CONFIG_MAP}---\n{SERVICE}---{_LEASE}",
    ready=("wait --for=condition=Ready pod/web --timeout=60s",),
    lines=[
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
        "get pod web -o=yaml",
        "get pods -o json",
        "get pods,services -o yaml",
        "get services",
        "get svc -o wide",
        "get serviceaccounts",
        "get secrets",
        "get namespace default kube-system",
        "get priorityclasses",
        "get service kubernetes -n default",
        "get pod web --output=name",
        "get pod nobody",
        "get pod web nobody",
        "get pod nobody --ignore-not-found=true",
        "get nonsense",
        "get",
        "get pods -l app=(",
        "describe lease mine",
        "describe lease nobody",
        "describe nonsense",
        "describe",
        _create(CONFIG_MAP),
        _create(POD.replace("name: web", "name: Not_Good").replace("containerPort: 80", "containerPort: 99999")),
        _create(POD.replace("name: web", "name: other").replace("image: nginx:1.27", "image: ''")),
        _create(CONFIG_MAP.replace("\ndata:", "\ndada:")),
        _create(CONFIG_MAP.replace("ConfigMap", "Nonsense")),
        _create(CONFIG_MAP.replace("kind: ConfigMap\n", "")),
        _create(CONFIG_MAP.replace("apiVersion: v1\n", "")),
        _create("a: ["),
        _create(""),
        "create -f /nowhere.yaml",
        Line("create -f - --dry-run=server", stdin=CONFIG_MAP.replace("settings", "dry")),
        "get configmap dry",
    ],
)
