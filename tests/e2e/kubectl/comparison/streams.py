"""logs, exec, attach, cp and port-forward: what they refuse, and the logs of hollow pods."""

from tests.e2e.kubectl.comparison import Area

_SETUP = """
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: two}}
spec:
  initContainers: [{name: prepare, image: busybox}]
  containers:
  - {name: main, image: busybox, ports: [{containerPort: 80, name: http}, {containerPort: 53, protocol: UDP}]}
  - {name: side, image: busybox}
---
apiVersion: v1
kind: Service
metadata: {name: two}
spec: {selector: {app: two}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: blind}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""

AREA = Area(
    setup=_SETUP,
    ready=("wait --for=condition=Ready pod/two --timeout=60s",),
    lines=(
        "logs",
        "logs nosuch",
        "logs two -c nosuch",
        "logs two main -c main",
        "logs a b c",
        "logs two -l app=two",
        "logs -l app=nothing",
        "logs two --since 5m --since-time 2026-01-01T00:00:00Z",
        "logs two --since bogus",
        "logs two --all-containers -c main",
        "logs two --limit-bytes=-1",
        "logs two --tail=-2",
        "logs two --tail=x",
        "logs cm/settings",
        "logs svc/blind",
        "logs deploy/nosuch",
        "logs a/b/c",
        "exec",
        "exec two",
        "exec two ls",
        "exec two ls -- pwd",
        "exec nosuch -- ls",
        "exec two -c nosuch -- ls",
        "exec cm/settings -- ls",
        "attach",
        "attach a b c",
        "attach nosuch",
        "attach two -c nosuch",
        "cp",
        "cp a b",
        "cp two:/x two:/y",
        "cp /nosuch two:/x",
        "cp :x y",
        "cp a/b/c:x y",
        "port-forward",
        "port-forward two",
        "port-forward nosuch 80",
        "port-forward two nosuch",
        "port-forward two 53",
        "port-forward svc/two nosuch",
        "port-forward svc/two 81",
        "port-forward two abc:80",
        "port-forward two 80:70000",
        "port-forward two 80 --address nosuch",
        "port-forward cm/settings 80",
        "debug",
        "debug two",
        "debug nosuch --image=busybox",
        "debug two --image=busybox -t",
        "debug two --image=busybox --profile=bogus",
        "debug two --image=busybox --replace",
        "debug two --image=busybox --same-node",
        "debug two --set-image=main=x",
        "debug two --copy-to=copy",
        "debug two --copy-to=copy -- ls",
        "debug two --image=busybox --image-pull-policy=Sometimes",
        "debug two --image=busybox --target=main --copy-to=copy",
        "debug cm/settings --image=busybox",
        "debug node/nosuch --image=busybox",
        "debug two --image=busybox -c helper -q",
        "get pod two -o jsonpath={.spec.ephemeralContainers}",
        "debug two --image=busybox -c restricted --profile=restricted --env A=1 -q -- sleep 10",
        "get pod two -o jsonpath={.spec.ephemeralContainers[1]}",
        "debug two --copy-to=copy --image=busybox -c helper --share-processes=false",
        "get pod copy -o jsonpath={.spec.containers[2]}{.spec.shareProcessNamespace}{.metadata.labels}",
        "debug two --copy-to=images --set-image=*=nginx --keep-labels",
        "get pod images -o jsonpath={.spec.containers[*].image}{.metadata.labels}",
    ),
)
