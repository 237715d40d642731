"""Nodes, roles, dumps and rollouts: cordon, taint, drain, auth reconcile, cluster-info dump, rollout of all kinds."""

from tests.e2e.kubectl.comparison import Area, Line


def _workload(kind: str, name: str) -> str:
    return f"""
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  {"replicas: 1" if kind != "DaemonSet" else "minReadySeconds: 0"}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: "nginx:1"}}]}}
"""


_ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r}
rules: [{apiGroups: [""], resources: [pods], verbs: [%s]}]
"""
_OVERRIDES = '{"spec":{"nodeName":"node-0"}}'

AREA = Area(
    setup=_workload("Deployment", "dep")
    + "---"
    + _workload("StatefulSet", "sts")
    + "---"
    + _workload("DaemonSet", "ds"),
    ready=(
        "rollout status deployment/dep --timeout=120s",
        "rollout status statefulset/sts --timeout=120s",
        "rollout status daemonset/ds --timeout=120s",
    ),
    files={
        "role.yaml": _ROLE % "get, list",
        "role2.yaml": _ROLE % "get, watch",
        "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a, image: b}]}\n",
    },
    lines=[
        "cordon node-0 --dry-run=client",
        "cordon nosuch",
        "cordon -l nosuch=x",
        "taint nodes -l nosuch=x a=b:NoSchedule",
        "taint node node-0 a=b:NoSchedule b=:NoSchedule --dry-run=client",
        "taint node node-0 =:NoSchedule",
        "taint node node-0 a=b=c:NoSchedule",
        "taint node node-0 a/b/c=d:NoSchedule",
        "taint node node-0 nosuch-",
        "taint node node-0 b:NoSchedule c=d:NoExecute --dry-run=server -o name",
        f"run bare --image=nginx --labels=owner={{ns}} --overrides='{_OVERRIDES}'",
        "wait --for=condition=Ready pod/bare --timeout=60s",
        "drain node-0 --pod-selector=owner={ns} --dry-run=client",
        "drain node-0 --pod-selector=owner={ns} --force --dry-run=server",
        "drain node-0 --pod-selector=owner={ns} --force --dry-run=server --disable-eviction",
        "drain -l nosuch=x",
        "drain node-0 -l a=b",
        "drain nosuch --ignore-daemonsets --delete-emptydir-data --skip-wait-for-delete-timeout=5 --chunk-size=1",
        "auth reconcile -f role.yaml",
        "auth reconcile -f role.yaml",
        "auth reconcile -f role2.yaml --dry-run=client",
        "auth reconcile -f role2.yaml",
        "auth reconcile -f role.yaml --remove-extra-permissions",
        "auth reconcile -f role.yaml --remove-extra-permissions -o name",
        "get role r -o jsonpath={.rules}",
        "auth reconcile -f pod.yaml",
        "auth reconcile -f nosuch.yaml",
        "auth can-i delete pods --as ann",
        "auth can-i list pods --as cat",
        "auth can-i --list --as cat",
        "auth whoami -o yaml",
        "auth whoami -o json",
        "rollout history deployment/dep",
        "rollout history statefulset sts",
        "rollout history ds/ds",
        "rollout history ds/ds --revision=1",
        "rollout history deploy/dep --revision=9",
        "rollout history pod/x",
        "set image deployment/dep main=nginx:2",
        "rollout status deployment/dep --timeout=60s",
        "rollout history deployment/dep --revision=2",
        "rollout history deploy dep -o yaml --revision=1",
        "rollout undo deployment/dep --dry-run=client",
        "rollout undo deployment/dep --dry-run=server",
        "rollout undo deployment/dep",
        "rollout undo deployment/dep --to-revision=9",
        "rollout undo deployment/dep --to-revision=x",
        "rollout pause deployment/dep",
        "rollout pause deployment/dep",
        "rollout undo deployment/dep",
        "rollout resume deployment/dep",
        "rollout resume deployment/dep",
        "rollout restart deployment/dep",
        "rollout restart ds,sts",
        "rollout status deploy -l app=dep --timeout=60s",
        "rollout status --timeout=1s deploy/nosuch",
        "rollout status cm/x",
        "rollout status",
        "rollout restart cm/kube-root-ca.crt",
        "rollout pause sts/sts",
        "rollout undo sts/sts",
        "rollout status deployment/dep --revision=9 --watch=false",
        "rollout nosuch",
        "scale --replicas=0 deployment/dep sts/sts",
        "get deploy,sts -o custom-columns=N:.metadata.name,R:.spec.replicas",
        "autoscale deployment dep --min=1 --max=3 --cpu=50%",
        "get hpa dep -o jsonpath={.spec}",
        "describe hpa dep",
        "logs deployment/dep",
        "logs ds/ds --tail=1",
        "logs -l app=ds --prefix",
        "logs sts/sts -c nosuch",
        "logs ds/ds --since=1x",
        "logs ds/ds --since-time=x",
        "logs ds/ds --tail=x",
        "logs ds/ds --since=1s --since-time=2020-01-01T00:00:00Z",
        "logs -l app=nosuch",
        "logs -l app=ds -p",
        "logs cm/kube-root-ca.crt",
        "logs ds/ds --limit-bytes=-1",
        "logs ds/ds --all-containers -c main",
        "logs --max-log-requests=0 -l app=ds -f",
        Line("cluster-info dump --namespaces=nosuch", unordered="\n"),
        Line("cluster-info dump --output-directory=/dev/null/directory"),
        Line("cluster-info dump --output-directory=/proc/directory"),
        "cluster-info nosuch",
        "top pod",
        "top node",
        "top pod --containers --sort-by=cpu",
        "top pod nosuch",
    ],
)
