"""`kubectl rollout` of deployments."""

from tests.e2e.kubectl.comparison import Area
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "create -f dep.yaml",
        "rollout status deployment dep --timeout=30s",
        "rollout history deployment dep",
        "set image deployment/dep c=nginx:2",
        "annotate deployment dep kubernetes.io/change-cause=second",
        "rollout history deployment/dep",
        "rollout history deployment/dep --revision=1",
        "rollout history deployment/dep --revision=9",
        "rollout undo deployment/dep --dry-run=client",
        "rollout undo deployment/dep --dry-run=server",
        "rollout undo deployment/dep",
        "rollout undo deployment/dep --to-revision=3",
        "rollout undo deployment/dep --to-revision=7",
        "rollout pause deployment/dep",
        "rollout pause deployment/dep",
        "rollout undo deployment/dep",
        "rollout restart deployment/dep",
        "rollout resume deployment/dep",
        "rollout resume deployment/dep",
        "rollout restart deployment/dep",
        "rollout restart deployment -l app=none",
        "rollout status deployment nope",
        "rollout status",
        "rollout status cm/kube-root-ca.crt",
        "rollout history cm/kube-root-ca.crt",
        "rollout undo cm/kube-root-ca.crt",
        "rollout pause cm/kube-root-ca.crt",
        "rollout restart cm/kube-root-ca.crt",
        "rollout history",
        "rollout foo",
        "rollout status deployment/dep --revision=-1",
        "rollout undo deployment",
        "apply -f dep.yaml",
        "rollout undo deployment/dep --timeout=1s",
    ],
)
