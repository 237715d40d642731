"""Commands that read without `get`: wait, events, api-resources, api-versions, version, plugin."""

from tests.e2e.kubectl.comparison import Area, Line

_SETUP = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""

AREA = Area(
    setup=_SETUP,
    ready=("rollout status deployment/web --timeout=60s",),
    files={
        "web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
        "nobody.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nobody}\n",
    },
    lines=(
        "wait",
        "wait pod/nobody",
        "wait --for=condition=Ready pod/nobody",
        "wait --for=condition=Ready pod -l app=web",
        "wait --for=condition=Ready pod -l app=none",
        "wait --for=condition=ready pod --all",
        "wait --for=condition=Ready pod --all -o name",
        "wait --for=condition=Ready pods",
        "wait --for=condition=Ready pod --timeout=x",
        "wait --for=condition=Ready nonsense/x",
        "wait --for=nonsense pod --all",
        "wait --for=delete pod/nobody",
        "wait --for=delete pod -l app=none",
        "wait --for=delete deploy/web --timeout=0",
        "wait --for=delete deploy/web --timeout=1s",
        "wait --for=delete pod/nobody deploy/web --timeout=0",
        "wait --for=condition=Available deploy/web",
        "wait --for condition=Available deployment web",
        "wait --for=condition=Available=false deploy/web --timeout=0",
        "wait --for=condition=Available=false deploy/web --timeout=1s",
        "wait --for=condition=Available=true -f web.yaml",
        "wait --for=condition=Available -f nobody.yaml",
        "wait --for=condition=Available deploy/web -o yaml",
        "wait --for=condition=Available --for=create deploy/web",
        "wait --for=jsonpath='{.status.readyReplicas}'=1 deploy/web",
        "wait --for=jsonpath='{.status.readyReplicas}' deploy/web",
        "wait --for=jsonpath=.status.readyReplicas=1 deploy/web",
        "wait --for=jsonpath='{.status}'=2 deploy/web",
        "wait --for=jsonpath='{.status.conditions[*].type}'=2 deploy/web",
        "wait --for=jsonpath= deploy/web",
        "wait --for=jsonpath='{.a}'= deploy/web",
        "wait --for=jsonpath='{.a}'=b=c deploy/web",
        "wait --for=jsonpath={.a deploy/web",
        "wait --for=create deploy/web",
        "wait --for=create deploy/nobody --timeout=1s",
        "wait --for=create configmap/settings",
        Line("events", unordered="\n"),
        Line("events --for deployment/web"),
        "events --for deployment/web -o yaml",
        "events --for deployment/web -o json",
        "events --for deployment/web --no-headers",
        "events --for pod/nobody",
        "events --for nonsense",
        "events --for nonsense/x",
        "events --for a/b/c",
        "events --types=Warning",
        "events --types=nonsense",
        "events --for deployment/web --types=Normal,Warning",
        "events -o name",
        "events -o nonsense",
        "events -n nowhere",
        "api-resources",
        "api-resources -o wide",
        "api-resources -o name",
        "api-resources -o json",
        "api-resources -o yaml",
        "api-resources --no-headers",
        "api-resources --api-group=apps",
        "api-resources --api-group=",
        "api-resources --api-group=nonsense",
        "api-resources --namespaced=false",
        "api-resources --namespaced",
        "api-resources --verbs=list,get --sort-by=name",
        "api-resources --verbs=nonsense",
        "api-resources --categories=all",
        "api-resources --sort-by=kind",
        "api-resources --sort-by=nonsense",
        "api-resources -o nonsense",
        "api-resources nonsense",
        "api-versions",
        "api-versions nonsense",
        "version",
        "version --client",
        "version -o nonsense",
        "version nonsense",
        "version --server=https://127.0.0.1:1",
        Line("plugin list", environment={"PATH": "/nowhere"}),
        "plugin nonsense",
    ),
)
