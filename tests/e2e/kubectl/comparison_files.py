"""Files that the lines of the comparison with kubectl use."""

FILES = {
    "cm.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: cm
  labels: {app: web}
data: {a: b}
""",
    "cm2.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: cm
  labels: {app: web}
data: {a: c, d: e}
""",
    "pod.yaml": """\
apiVersion: v1
kind: Pod
metadata:
  name: pod
  labels: {app: web}
spec:
  containers:
  - name: c
    image: nginx
""",
    "dep.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: dep
  labels: {app: dep}
spec:
  replicas: 2
  selector: {matchLabels: {app: dep}}
  template:
    metadata: {labels: {app: dep}}
    spec:
      containers:
      - name: c
        image: nginx:1
        ports: [{containerPort: 80}]
""",
    "dep2.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: dep
  labels: {app: dep}
spec:
  replicas: 3
  selector: {matchLabels: {app: dep}}
  template:
    metadata: {labels: {app: dep}}
    spec:
      containers:
      - name: c
        image: nginx:2
        ports: [{containerPort: 80}]
""",
    "two.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: cm
  labels: {app: web}
data: {a: b}
---
apiVersion: v1
kind: Pod
metadata:
  name: pod
  labels: {app: web}
spec:
  containers:
  - name: c
    image: nginx
""",
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
    "secret.yaml": """\
apiVersion: v1
kind: Secret
metadata: {name: sec}
data: {a: Yg==}
""",
    "secret2.yaml": """\
apiVersion: v1
kind: Secret
metadata: {name: sec}
data: {a: Yw==}
""",
    "unknown.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cmx}
data: {a: b}
foo: bar
""",
    "podbad.yaml": """\
apiVersion: v1
kind: Pod
metadata:
  name: pod
  labels: {app: web}
spec:
  containers:
  - name: c
    image: ''
""",
    "pod2.yaml": """\
apiVersion: v1
kind: Pod
metadata:
  name: pod
  labels: {app: web}
spec:
  containers:
  - name: c
    image: nginx:2
""",
    "podname.yaml": """\
apiVersion: v1
kind: Pod
metadata:
  name: pod
  labels: {app: web}
spec:
  containers:
  - name: d
    image: nginx
""",
    "gen.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  generateName: gen-
  labels: {app: web}
data: {a: b}
""",
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
