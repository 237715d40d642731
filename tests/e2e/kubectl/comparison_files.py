"""Manifest files for the command lines of the comparison with kubectl."""


def _config_map(data: str, name: str = "name: cm") -> str:
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  {name}
  labels: {{app: web}}
data: {data}
"""


def _pod(image: str, container: str = "c") -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata:
  name: pod
  labels: {{app: web}}
spec:
  containers:
  - name: {container}
    image: {image}
"""


def _deployment(replicas: int, image: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: dep
  labels: {{app: dep}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: dep}}}}
  template:
    metadata: {{labels: {{app: dep}}}}
    spec:
      containers:
      - name: c
        image: {image}
        ports: [{{containerPort: 80}}]
"""


def _secret(data: str) -> str:
    return f"""\
apiVersion: v1
kind: Secret
metadata: {{name: sec}}
data: {data}
"""


FILES = {
    "cm.yaml": _config_map("{a: b}"),
    "cm2.yaml": _config_map("{a: c, d: e}"),
    "pod.yaml": _pod("nginx"),
    "dep.yaml": _deployment(2, "nginx:1"),
    "dep2.yaml": _deployment(3, "nginx:2"),
    "two.yaml": _config_map("{a: b}") + "---\n" + _pod("nginx"),
    "bad.yaml": """\
apiVersion: v1
kind: Foo
metadata: {name: x}
""",
    "nokind.yaml": """\
apiVersion: v1
metadata: {name: x}
""",
    "env": """\
A=1
B=2
""",
    "file.txt": """\
hello
""",
    "secret.yaml": _secret("{a: Yg==}"),
    "secret2.yaml": _secret("{a: Yw==}"),
    "unknown.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cmx}
data: {a: b}
foo: bar
""",
    "podbad.yaml": _pod("''"),
    "pod2.yaml": _pod("nginx:2"),
    "podname.yaml": _pod("nginx", container="d"),
    "gen.yaml": _config_map("{a: b}", name="generateName: gen-"),
    "rc.yaml": """\
apiVersion: v1
kind: ReplicationController
metadata: {name: rc}
spec:
  replicas: 1
  selector: {app: rc}
  template:
    metadata: {labels: {app: rc}}
    spec: {containers: [{name: c, image: nginx}]}
""",
    "svc.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: svc}
spec:
  selector: {app: dep}
  ports: [{port: 80}]
""",
    "patch.yaml": """\
metadata:
  labels: {x: z}
""",
}
