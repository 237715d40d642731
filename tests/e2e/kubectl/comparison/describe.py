"""`kubectl describe` of every built-in kind and of a custom resource."""

from tests.e2e.kubectl.comparison import Area

_SETUP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {note: "one\\ntwo"}}
data: {a: "1", b: "x\\ny\\n"}
binaryData: {bin: aGVsbG8=}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {password: hunter2, user: bob}
---
apiVersion: v1
kind: Secret
metadata: {name: empty}
data: {A.b: ""}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: none}
---
apiVersion: v1
kind: Service
metadata: {name: lonely}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: exposed, labels: {app: web}}
spec:
  selector: {app: nothing, tier: front}
  type: NodePort
  sessionAffinity: ClientIP
  ports: [{name: http, port: 80, targetPort: 8080}, {name: m, port: 9090, targetPort: metrics, protocol: UDP}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: mine, labels: {app: web, tier: front}, annotations: {note: any text}}
spec: {holderIdentity: me, leaseDurationSeconds: 30}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: other}
spec: {holderIdentity: me}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
spec: {hard: {pods: "50", services: "10"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, default: {cpu: 500m}, defaultRequest: {cpu: 10m}, max: {cpu: "2"}}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: builder}
imagePullSecrets: [{name: first}, {name: second}]
---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {a: b}}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 90, targetPort: metrics, appProtocol: x}]
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {type: ExternalName, externalName: example.com}
---
apiVersion: v1
kind: Pod
metadata: {name: plain, labels: {app: plain}, annotations: {note: text}}
spec:
  serviceAccountName: builder
  nodeSelector: {kubernetes.io/os: linux}
  tolerations:
  - {key: a, value: b, effect: NoSchedule}
  - {key: z, operator: Exists, tolerationSeconds: 5, effect: NoExecute}
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: plain}}}
  initContainers: [{name: prepare, image: busybox, command: [sh, -c, "true"]}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "sleep 1000"]
    args: ["a\\nb"]
    ports: [{containerPort: 8080, name: http}, {containerPort: 9090, protocol: UDP}]
    resources: {limits: {cpu: 200m, memory: 64Mi}, requests: {cpu: 100m, memory: 32Mi}}
    livenessProbe: {exec: {command: [sh, -c, "true"]}, periodSeconds: 60}
    readinessProbe: {httpGet: {path: /healthz, port: http}, initialDelaySeconds: 5}
    startupProbe: {tcpSocket: {port: 8080}, failureThreshold: 3}
    env:
    - {name: A, value: "x\\ny"}
    - {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: C, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: D, valueFrom: {secretKeyRef: {name: hidden, key: user}}}
    - {name: E, valueFrom: {configMapKeyRef: {name: settings, key: a, optional: true}}}
    envFrom: [{configMapRef: {name: settings}, prefix: P_}, {secretRef: {name: hidden, optional: true}}]
    volumeMounts: [{name: scratch, mountPath: /e}, {name: config, mountPath: /c, readOnly: true, subPath: a}]
  - {name: side, image: busybox}
  volumes:
  - {name: scratch, emptyDir: {sizeLimit: 1Gi}}
  - {name: config, configMap: {name: settings}}
  - {name: keys, secret: {secretName: hidden, optional: true}}
  - {name: host, hostPath: {path: /tmp, type: Directory}}
  - {name: info, downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: mixed, projected: {sources: [{secret: {name: hidden}}, {configMap: {name: settings}}]}}
  - {name: share, nfs: {server: s, path: /p}}
  - {name: memory, emptyDir: {medium: Memory}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {q: r}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: web
  replicas: 1
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: postgres}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: main, image: agent}]}}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 1
  selector: {app: old}
  template: {metadata: {labels: {app: old}}, spec: {containers: [{name: main, image: old}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  suspend: true
  backoffLimit: 2
  completionMode: Indexed
  completions: 2
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  timeZone: Etc/UTC
  suspend: true
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: nowhere}
  maxReplicas: 3
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
  - {type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: "10"}}}
  behavior: {scaleDown: {stabilizationWindowSeconds: 60, policies: [{type: Pods, value: 1, periodSeconds: 30}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, annotations: {foo: bar}}
spec:
  ingressClassName: none
  tls: [{hosts: [a.com], secretName: hidden}, {hosts: [b.com]}]
  rules:
  - host: a.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: nowhere, port: {name: http}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec:
  podSelector: {matchLabels: {app: nobody}}
  policyTypes: [Ingress, Egress]
  ingress:
  - ports: [{port: 80}, {port: 90, endPort: 95, protocol: UDP}]
    from:
    - podSelector: {matchLabels: {a: b}}
    - {namespaceSelector: {}, podSelector: {matchExpressions: [{key: k, operator: In, values: [b, a]}]}}
    - ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}
  - {}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: ["", apps], resources: [pods, deployments/scale], verbs: [get, list]}
- {apiGroups: [""], resources: [secrets], resourceNames: [a, b], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: builder}, {kind: User, name: bob, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: manual}
addressType: IPv4
ports: [{name: p, port: 80, protocol: TCP}]
endpoints: [{addresses: [1.2.3.4], zone: here, conditions: {ready: false}}, {addresses: [1.2.3.5]}]
"""

_POD_FILE = "apiVersion: v1\nkind: Pod\nmetadata: {name: plain}\n"

AREA = Area(
    setup=_SETUP,
    ready=(
        "rollout status deployment/web --timeout=60s",
        "wait --for=condition=Ready pod/plain --timeout=60s",
    ),
    files={"pod.yaml": _POD_FILE},
    lines=(
        "describe pod plain",
        "describe po/plain --show-events=false",
        "describe pods plain",
        "describe deployment web --show-events=false",
        "describe deploy/web svc/web",
        "describe statefulset db --show-events=false",
        "describe sts",
        "describe daemonset agent --show-events=false",
        "describe rc old --show-events=false",
        "describe rs --show-events=false",
        "describe job once",
        "describe cronjob nightly",
        "describe hpa web --show-events=false",
        "describe pdb web --show-events=false",
        "describe ingress web",
        "describe netpol closed",
        "describe networkpolicies",
        "describe pvc data --show-events=false",
        "describe role reader",
        "describe rolebinding readers",
        "describe clusterrole view",
        "describe clusterrole edit admin",
        "describe clusterrolebinding cluster-admin",
        "describe configmap settings",
        "describe cm/settings",
        "describe secret hidden",
        "describe secret empty",
        "describe configmap none",
        "describe service lonely",
        "describe service exposed",
        "describe lease mine",
        "describe leases",
        "describe lease nobody",
        "describe namespace kube-node-lease",
        "describe quota quota",
        "describe limitrange limits",
        "describe sa builder",
        "describe sa default",
        "describe svc web",
        "describe service elsewhere",
        "describe endpointslice manual",
        "describe ns {ns}",
        "describe namespace default",
        "describe svc kubernetes -n default",
        "describe priorityclass system-node-critical",
        "describe servicecidr kubernetes",
        "describe apiservice v1.apps",
        "describe flowschema probes",
        "describe prioritylevelconfiguration exempt",
        "describe -f pod.yaml --show-events=false",
        "describe -f missing.yaml",
        "describe pods -l app=plain",
        "describe pods -l app=nothing",
        "describe pod pla",
        "describe pod nosuch",
        "describe pod/nosuch",
        "describe pod plain nosuch",
        "describe",
        "describe nosuch",
        "describe pods -l a=b -A",
        "describe cm settings --chunk-size=1",
        "describe pods -l 'bad selector'",
        "describe pod plain --bogus",
    ),
)
