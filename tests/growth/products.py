"""Lists in different objects of a tenant that grow two or three at a time, for controllers and hollow nodes.

A product is a function from a size to the steps of an attack; the objects of a step are created concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

NAMESPACE = "team"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
BATCH = f"/apis/batch/v1/namespaces/{NAMESPACE}"
POLICY = f"/apis/policy/v1/namespaces/{NAMESPACE}"
NETWORKING = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}"
AUTOSCALING = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
COLLECTIONS = (
    *(f"{BATCH}/{plural}" for plural in ("cronjobs", "jobs")),
    *(f"{APPS}/{plural}" for plural in ("deployments", "statefulsets", "daemonsets", "replicasets")),
    *(f"{CORE}/{plural}" for plural in ("services", "endpoints", "configmaps", "persistentvolumeclaims", "pods")),
    *(f"{CORE}/{plural}" for plural in ("limitranges", "resourcequotas", "events")),
    *(f"{RBAC}/{plural}" for plural in ("rolebindings", "roles")),
    f"{POLICY}/poddisruptionbudgets",
    f"{NETWORKING}/networkpolicies",
    f"{NETWORKING}/ingresses",
    f"{AUTOSCALING}/horizontalpodautoscalers",
)
"""What is deleted after each attack."""


@dataclass(frozen=True, slots=True)
class Write:
    path: str
    value: Any
    method: str = "POST"
    media: str = "application/json"


Steps = Sequence[Sequence[Write]]
Product = Callable[[int], Steps]


def write(path: str, name: str, **fields: Any) -> Write:
    meta = fields.pop("metadata", {})
    return Write(path, {"metadata": {"name": name, **meta}, **fields})


def pod(number: int, *, labels: Any = None, annotations: Any = None, node: bool = True, **spec: Any) -> Write:
    """Return a pod of one of two nodes or, without `node`, one that the scheduler binds."""
    base = {"containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": 0}
    where = {"nodeName": f"node-{number % 2}"} if node else {}
    meta = {"labels": labels or {}, "annotations": annotations or {}}
    return write(f"{CORE}/pods", f"p{number}", metadata=meta, spec=base | where | spec)


def pods(count: int, **fields: Any) -> list[Write]:
    return [pod(number, **fields) for number in range(count)]


def containers(count: int, **fields: Any) -> list[Any]:
    return [{"name": f"c{number}", "image": "x", **fields} for number in range(count)]


def flags(count: int, letter: str = "k", value: str = "x") -> dict[str, str]:
    return {f"{letter}{number}": value for number in range(count)}


def absent_keys(count: int) -> dict[str, Any]:
    return {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(count)]}


def template(labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"containers": containers(1), **spec}}


def owner_references(count: int) -> list[Any]:
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{number}", "uid": f"00000000-0000-0000-0000-{number:012d}"}
        for number in range(count)
    ]


def service(name: str, ports: list[Any], **spec: Any) -> Write:
    return write(f"{CORE}/services", name, spec={"clusterIP": "None", "ports": ports, **spec})


def named_ports(count: int) -> list[Any]:
    return [{"name": f"p{number}", "port": number + 1, "targetPort": f"n{number}"} for number in range(count)]


def pods_with_named_ports(count: int, ports: int, *, distinct: bool) -> list[Write]:
    def container(number: int) -> Any:
        first = 1 + number * distinct
        return {
            "name": "c",
            "image": "x",
            "ports": [{"name": f"n{at}", "containerPort": first + at} for at in range(ports)],
        }

    return [pod(number, labels={"app": "a"}, containers=[container(number)]) for number in range(count)]


def endpoints(count: int, *, each_has_its_own_subset: bool) -> Write:
    addresses = [{"ip": f"10.0.{number // 250}.{number % 250}"} for number in range(count)]
    subsets = [
        {"addresses": addresses, "ports": [{"name": f"p{at}", "port": at + 1} for at in range(count)]},
        *({"addresses": [address], "ports": [{"port": 1}]} for address in addresses if each_has_its_own_subset),
    ]
    return Write(f"{CORE}/endpoints", {"metadata": {"name": "s"}, "subsets": subsets})


def quota(number: int, **spec: Any) -> Write:
    return write(f"{CORE}/resourcequotas", f"q{number}", spec=spec)


def build_amounts(count: int, amount: str) -> dict[str, str]:
    return {f"example.com/r{number}": amount for number in range(count)}


def managed_fields(count: int) -> list[Any]:
    return [
        {
            "manager": f"m{number}",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {f"f:k{number}": {}}},
        }
        for number in range(count)
    ]


def review(**attributes: Any) -> Write:
    return Write(REVIEWS, {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", **attributes}}})


PRODUCTS: dict[str, Product] = {
    "ports of a service, pods and ports of containers": lambda n: [
        [service("s", named_ports(40 * n), selector={"app": "a"})],
        pods_with_named_ports(n // 8, 20 * n, distinct=False),
    ],
    "ports of a service and pods with other numbers for each": lambda n: [
        [service("s", named_ports(40 * n), selector={"app": "a"})],
        pods_with_named_ports(n // 8, 20 * n, distinct=True),
    ],
    "services that select the same pods": lambda n: [
        [service(f"s{number}", [{"port": 80}], selector={"app": "a"}) for number in range(2 * n)],
        pods(n // 2, labels={"app": "a"}),
    ],
    "addresses and ports of Endpoints": lambda n: [
        [service("s", [{"port": 80}])],
        [endpoints(50 * n, each_has_its_own_subset=False)],
    ],
    "subsets of Endpoints with common addresses": lambda n: [
        [service("s", [{"port": 80}])],
        [endpoints(50 * n, each_has_its_own_subset=True)],
    ],
    "absent owners and objects of their kind": lambda n: [
        [write(f"{CORE}/configmaps", f"m{number}") for number in range(5 * n)],
        [
            write(f"{CORE}/configmaps", f"x{number}", metadata={"ownerReferences": owner_references(9 * n)})
            for number in range(4)
        ],
    ],
    "more owners than are collected": lambda n: [
        [write(f"{CORE}/configmaps", "x", metadata={"ownerReferences": owner_references(40 * n)})]
    ],
    "init containers of pods on hollow nodes": lambda n: [pods(n // 20, initContainers=containers(2 * n))],
    "sidecars of pods on hollow nodes": lambda n: [
        pods(
            n // 20,
            initContainers=[
                {**container, "restartPolicy": "Always", "name": f"i{at}"}
                for at, container in enumerate(containers(2 * n))
            ],
        )
    ],
    "annotations and containers of pods on hollow nodes": lambda n: [
        pods(
            n // 20,
            annotations={f"hollow.sampan.dev/run.c{number}": "1" for number in range(40 * n)},
            containers=containers(2 * n),
        )
    ],
    "a long annotation and containers of pods on hollow nodes": lambda n: [
        pods(
            n // 20,
            annotations={"hollow.sampan.dev/exit-code": ",".join(["1"] * 1_000 * n)},
            containers=containers(2 * n),
        )
    ],
    "limit ranges and containers": lambda n: [
        [
            write(
                f"{CORE}/limitranges",
                f"l{number}",
                spec={"limits": [{"type": "Container", "default": build_amounts(n // 2, "1")}]},
            )
            for number in range(n // 5)
        ],
        pods(4, containers=containers(n)),
    ],
    "quotas and requests of pods": lambda n: [
        [
            quota(number, hard={f"requests.{name}": "100000" for name in build_amounts(n, "1")})
            for number in range(n // 4)
        ],
        pods(
            n // 8,
            containers=containers(
                1, resources={"requests": build_amounts(n // 2, "1"), "limits": build_amounts(n // 2, "1")}
            ),
        ),
    ],
    "scopes of quotas and pods": lambda n: [
        [
            quota(
                number,
                hard={"pods": "100000"},
                scopeSelector={
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": list(flags(5 * n, "v"))}
                    ]
                    * 10
                },
            )
            for number in range(n // 8)
        ],
        pods(n // 4),
    ],
    "disruption budgets, requirements and pods": lambda n: [
        [
            write(
                f"{POLICY}/poddisruptionbudgets",
                f"b{number}",
                spec={"minAvailable": 1, "selector": absent_keys(n)},
            )
            for number in range(n // 2)
        ],
        pods(n // 2, labels=flags(n, "l")),
    ],
    "network policies, peers and pods": lambda n: [
        [
            write(
                f"{NETWORKING}/networkpolicies",
                f"n{number}",
                spec={
                    "podSelector": {},
                    "ingress": [
                        {
                            "from": [{"podSelector": {"matchLabels": {f"l{peer}": "x"}}} for peer in range(n // 2)],
                            "ports": [{"port": port + 1} for port in range(n // 2)],
                        }
                    ],
                },
            )
            for number in range(n // 2)
        ],
        pods(n // 2, labels=flags(n // 2, "l")),
    ],
    "ReplicaSets, requirements and pods": lambda n: [
        [
            write(
                f"{APPS}/replicasets",
                f"r{number}",
                spec={
                    "replicas": 0,
                    "selector": {"matchLabels": {"a": "b"}, **absent_keys(2 * n)},
                    "template": template({"a": "b"}),
                },
            )
            for number in range(n // 2)
        ],
        pods(n // 2, labels=flags(n, "l")),
    ],
    "claim templates and replicas of a StatefulSet": lambda n: [
        [
            write(
                f"{APPS}/statefulsets",
                "s",
                spec={
                    "replicas": 5,
                    "podManagementPolicy": "Parallel",
                    "serviceName": "x",
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": template({"a": "b"}),
                    "volumeClaimTemplates": [
                        {
                            "metadata": {"name": f"v{number}"},
                            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
                        }
                        for number in range(n)
                    ],
                },
            )
        ]
    ],
    "claims and pods that use all of them": lambda n: [
        pods(
            n // 8,
            volumes=[{"name": f"v{at}", "persistentVolumeClaim": {"claimName": f"c{at}"}} for at in range(4 * n)],
        ),
        [
            write(
                f"{CORE}/persistentvolumeclaims",
                f"c{number}",
                spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
            )
            for number in range(n // 2)
        ],
    ],
    "failing pods and rules of an indexed Job": lambda n: [
        [
            write(
                f"{BATCH}/jobs",
                "j",
                spec={
                    "parallelism": n // 2,
                    "completions": 50 * n,
                    "completionMode": "Indexed",
                    "backoffLimitPerIndex": 1,
                    "podFailurePolicy": {
                        "rules": [
                            {
                                "action": "Ignore",
                                "onExitCodes": {"operator": "In", "values": list(range(1, 1 + min(2 * n, 255)))},
                            }
                        ]
                        * 20
                    },
                    "template": {
                        "metadata": {"annotations": {"hollow.sampan.dev/exit-code": "250"}},
                        "spec": {"containers": containers(1), "restartPolicy": "Never"},
                    },
                },
            )
        ]
    ],
    "CronJobs that never run and that run at once": lambda n: [
        [
            write(
                f"{BATCH}/cronjobs",
                f"c{number}",
                spec={
                    "schedule": "0 0 31 2 *" if number % 2 else "* * * * *",
                    "jobTemplate": {"spec": {"template": template({}, restartPolicy="Never")}},
                },
            )
            for number in range(2 * n)
        ]
    ],
    "metrics of autoscalers and pods": lambda n: [
        [
            write(
                f"{APPS}/deployments",
                "d",
                spec={"replicas": n // 2, "selector": {"matchLabels": {"a": "b"}}, "template": template({"a": "b"})},
            )
        ],
        [
            write(
                f"{AUTOSCALING}/horizontalpodautoscalers",
                f"h{number}",
                spec={
                    "maxReplicas": 100,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                        }
                    ]
                    * n,
                },
            )
            for number in range(4)
        ],
    ],
    "tolerations, node selectors and pods": lambda n: [
        pods(
            n // 8,
            node=False,
            tolerations=[{"key": key, "operator": "Exists"} for key in flags(20 * n)],
            nodeSelector=flags(10 * n),
        )
    ],
    "affinity terms, labels and pods": lambda n: [
        pods(
            n // 8,
            node=False,
            labels=flags(2 * n),
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {key: "y"}}, "topologyKey": "kubernetes.io/hostname"}
                        for key in flags(5 * n)
                    ]
                }
            },
        )
    ],
    "host ports of pods": lambda n: [
        [
            pod(
                number,
                containers=containers(
                    1, ports=[{"containerPort": 1, "hostPort": 1 + at + number * 10 * n} for at in range(10 * n)]
                ),
            )
            for number in range(n // 8)
        ]
    ],
    "taint tolerations and node affinity of DaemonSets": lambda n: [
        [
            write(
                f"{APPS}/daemonsets",
                f"d{number}",
                spec={
                    "selector": {"matchLabels": {"a": f"b{number}"}},
                    "template": template(
                        {"a": f"b{number}"},
                        tolerations=[{"key": key, "operator": "Exists"} for key in flags(10 * n)],
                        affinity={
                            "nodeAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": {
                                    "nodeSelectorTerms": [
                                        {"matchExpressions": [{"key": key, "operator": "Exists"}]}
                                        for key in flags(5 * n)
                                    ]
                                }
                            }
                        },
                    ),
                },
            )
            for number in range(n // 8)
        ]
    ],
    "rules of Ingresses": lambda n: [
        [
            write(
                f"{NETWORKING}/ingresses",
                f"i{number}",
                spec={
                    "rules": [
                        {
                            "host": f"h{host}.example.com",
                            "http": {
                                "paths": [
                                    {
                                        "path": f"/p{path}",
                                        "pathType": "Prefix",
                                        "backend": {"service": {"name": "s", "port": {"number": 80}}},
                                    }
                                    for path in range(n // 4)
                                ]
                            },
                        }
                        for host in range(n // 2)
                    ]
                },
            )
            for number in range(n // 10)
        ]
    ],
    "names in roles and subjects of bindings": lambda n: [
        [
            write(
                f"{RBAC}/roles",
                f"r{number}",
                rules=[
                    {
                        "apiGroups": [""],
                        "resources": ["pods"],
                        "verbs": ["get"],
                        "resourceNames": [f"n{number}-{name}" for name in range(10 * n)],
                    }
                ],
            )
            for number in range(n // 8)
        ],
        [
            write(
                f"{RBAC}/rolebindings",
                f"b{number}",
                roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": f"r{number % (n // 8)}"},
                subjects=[
                    {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": f"s{subject}"}
                    for subject in range(10 * n)
                ],
            )
            for number in range(n // 4)
        ],
    ],
    "events": lambda n: [
        [
            write(
                f"{CORE}/events",
                f"e{number}",
                involvedObject={"kind": "Pod", "name": "p", "namespace": NAMESPACE},
                message="x" * 1_000,
                reason="r" * 100,
                type="Normal",
            )
            for number in range(10 * n)
        ]
    ],
    "managers and fields of one object": lambda n: [
        [write(f"{CORE}/configmaps", "m", metadata={"managedFields": managed_fields(30 * n)}, data=flags(30 * n))],
        [
            Write(
                f"{CORE}/configmaps/m?fieldManager=z&force=true",
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "m"},
                    "data": flags(30 * n, value=f"y{number}"),
                },
                "PATCH",
                "application/apply-patch+yaml",
            )
            for number in range(4)
        ],
    ],
    "raw selectors of access reviews": lambda n: [
        [review(labelSelector={"rawSelector": ",".join(f"!{key}" for key in flags(1_000 * n))})] * 4
    ],
    "requirements of access reviews": lambda n: [
        [review(labelSelector={"requirements": [{"key": key, "operator": "DoesNotExist"} for key in flags(200 * n)]})]
        * 4
    ],
    "label selectors of lists and objects": lambda n: [
        [write(f"{CORE}/configmaps", f"m{number}", metadata={"labels": {"a": "b"}}) for number in range(5 * n)],
        [
            Write(f"{CORE}/configmaps?labelSelector={','.join([*flags(900, f'!k{number}-'), 'a'])}", None, "GET")
            for number in range(20)
        ],
    ],
    "equal labels in selectors of lists": lambda n: [
        [write(f"{CORE}/configmaps", f"m{number}", metadata={"labels": flags(20)}) for number in range(5 * n)],
        [
            Write(f"{CORE}/configmaps?labelSelector={','.join(f'k{at}-{number}=x' for at in range(900))}", None, "GET")
            for number in range(20)
        ],
    ],
    "field selectors of lists and objects": lambda n: [
        [write(f"{CORE}/configmaps", f"m{number}") for number in range(5 * n)],
        [
            Write(
                f"{CORE}/configmaps?fieldSelector={','.join(f'metadata.name!=m{at}-{number}' for at in range(600))}",
                None,
                "GET",
            )
            for number in range(20)
        ],
    ],
}
