"""explain, auth, certificate, cluster-info, top, kustomize and proxy."""

from tests.e2e.kubectl.comparison import Area

_KUSTOMIZATION = """
resources: [service.yaml]
namePrefix: p-
labels: [{pairs: {a: b}, includeSelectors: true}]
images: [{name: nginx, newTag: "2"}]
configMapGenerator: [{name: settings, literals: [x=1, "y=<2>"]}]
secretGenerator: [{name: keys, literals: [k=v]}]
patches:
- target: {kind: Service}
  patch: |-
    - {op: replace, path: /spec/ports/0/port, value: 81}
"""
_SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx, envFrom: [{configMapRef: {name: settings}}]}]}
"""
_OVERLAY = "resources: [../base]\nnamespace: prod\nreplicas: [{name: web, count: 3}]\n"
_ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
"""

AREA = Area(
    files={
        "base/kustomization.yaml": _KUSTOMIZATION,
        "base/service.yaml": _SERVICE,
        "overlay/kustomization.yaml": _OVERLAY,
        "broken/kustomization.yaml": "resources: [missing.yaml]\n",
        "role.yaml": _ROLE,
    },
    lines=(
        "explain pods",
        "explain pods -R --max-depth=1",
        "explain deployment --recursive --max-depth=2",
        "explain pods.spec -R --max-depth=3",
        "explain pods -R --max-depth=2 -o plaintext-openapiv2",
        "explain pods --max-depth=2",
        "explain pods --max-depth=-1",
        "explain pods -R --max-depth=-1",
        "explain pod.spec",
        "explain pod.spec.containers",
        "explain pod.spec.containers.ports.protocol",
        "explain deployment.spec.strategy.rollingUpdate",
        "explain deployments.apps.spec.replicas",
        "explain deploy --recursive",
        "explain svc.spec.type",
        "explain cronjob --api-version=batch/v1",
        "explain hpa --api-version=autoscaling/v1",
        "explain pods -o plaintext-openapiv2",
        "explain pod.spec.containers -o plaintext-openapiv2",
        "explain pod.metadata.name -o plaintext-openapiv2",
        "explain cm --recursive -o plaintext-openapiv2",
        "explain pod.spec.nosuch",
        "explain nosuch",
        "explain",
        "explain a b",
        "explain pods -o bogus",
        "explain crd.spec",
        "explain node.status.conditions",
        "explain events",
        "explain pods --api-version=apps/v1",
        "auth can-i get pods",
        "auth can-i get pods -A",
        "auth can-i get nodes",
        "auth can-i fly pods",
        "auth can-i get nosuch",
        "auth can-i get nosuch.example.com",
        "auth can-i get /healthz",
        "auth can-i fly /healthz",
        "auth can-i get pods --subresource=log",
        "auth can-i get pods/web",
        "auth can-i --list",
        "auth can-i --list --no-headers",
        "auth can-i --list -q",
        "auth can-i --list x",
        "auth can-i get",
        "auth can-i '*' '*'",
        "auth can-i get pods -q",
        "auth can-i get pods --as bob",
        "auth can-i get pods --no-headers",
        "auth can-i --list --as bob",
        "auth whoami",
        "auth whoami -o jsonpath={.status.userInfo.username}",
        "auth whoami -o name",
        "auth whoami --as bob --as-group g",
        "auth reconcile",
        "auth reconcile -f role.yaml --dry-run=client",
        "auth reconcile -f role.yaml --dry-run=server",
        "auth reconcile -f role.yaml",
        "certificate approve",
        "certificate approve nosuch",
        "certificate deny nosuch",
        "cluster-info",
        "top pods --sort-by x",
        "top node a -l x=y",
        "top pod a b",
        "top pod web -l a=b",
        "top node nosuch",
        "kustomize base",
        "kustomize overlay",
        "kustomize broken",
        "kustomize nosuch",
        "kustomize a b",
        "proxy --port 9999999",
        "proxy --unix-socket x --port 1",
    ),
)
