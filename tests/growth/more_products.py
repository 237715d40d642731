"""Products of policies, claims, tokens, definitions, flow schemas, joined nodes and others of the whole cluster."""

from __future__ import annotations

from typing import Any

from tests.apiserver.every_kind import CSR
from tests.growth.products import (
    APPS,
    BATCH,
    CORE,
    NAMESPACE,
    POLICY,
    RBAC,
    Product,
    Steps,
    Write,
    containers,
    flags,
    owner_references,
    pod,
    pods,
    service,
    template,
    write,
)

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims"
STORAGE = "/apis/storage.k8s.io/v1"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SELECTOR = "?labelSelector=attack"
"""The objects of the whole cluster have this label, so that others are not deleted with them."""
MORE_COLLECTIONS = (
    *(
        f"{ADMISSION}/{plural}{SELECTOR}"
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
    ),
    *(f"{ADMISSION}/{plural}{SELECTOR}" for plural in ("validatingwebhookconfigurations",)),
    *(f"{FLOWS}/{plural}{SELECTOR}" for plural in ("flowschemas", "prioritylevelconfigurations")),
    *(f"{STORAGE}/{plural}{SELECTOR}" for plural in ("storageclasses", "csinodes", "volumeattachments")),
    f"/apis/example.com/v1/namespaces/{NAMESPACE}/things",
    f"{DEFINITIONS}{SELECTOR}",
    CLAIMS,
    f"{DEVICES}/resourceslices{SELECTOR}",
    f"{DEVICES}/deviceclasses{SELECTOR}",
    f"{APPS}/controllerrevisions",
    f"{CORE}/secrets",
    f"{CORE}/replicationcontrollers",
    f"{CORE}/serviceaccounts{SELECTOR}",
    SLICES,
    f"/api/v1/persistentvolumes{SELECTOR}",
    f"/api/v1/nodes{SELECTOR}",
    f"{REQUESTS}{SELECTOR}",
    f"/apis/scheduling.k8s.io/v1/priorityclasses{SELECTOR}",
    f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
)


def write_marked(path: str, name: str, **fields: Any) -> Write:
    """Return the creation of an object of the whole cluster."""
    meta = fields.pop("metadata", {})
    return write(path, name, metadata={**meta, "labels": {"attack": "x", **meta.get("labels", {})}}, **fields)


def token_request(**spec: Any) -> Write:
    return Write(f"{CORE}/serviceaccounts/default/token", {"spec": spec})


def policy(name: str, expressions: list[str], **spec: Any) -> list[Write]:
    """Return an admission policy for config maps, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    return [
        write_marked(
            f"{ADMISSION}/validatingadmissionpolicies",
            name,
            spec={
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression} for expression in expressions],
                "failurePolicy": "Ignore",
                **spec,
            },
        ),
        write_marked(
            f"{ADMISSION}/validatingadmissionpolicybindings",
            name,
            spec={
                "policyName": name,
                "validationActions": ["Audit"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}},
            },
        ),
    ]


def config_maps(count: int, **fields: Any) -> list[Write]:
    return [write(f"{CORE}/configmaps", f"m{number}", **fields) for number in range(count)]


def device_slices(count: int, devices: int) -> list[Write]:
    return [
        write_marked(
            f"{DEVICES}/resourceslices",
            f"s{number}",
            spec={
                "driver": "x.example.com",
                "nodeName": f"node-{number % 2}",
                "pool": {"name": f"p{number}", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": f"d{at}", "attributes": {key: {"string": "x"} for key in flags(20)}}
                    for at in range(devices)
                ],
            },
        )
        for number in range(count)
    ]


def claim(name: str, requests: int, expression: str) -> Write:
    selectors = [{"cel": {"expression": expression}}] * 8
    exactly = {"deviceClassName": "gpu", "selectors": selectors}
    devices = {"requests": [{"name": f"r{number}", "exactly": exactly} for number in range(requests)]}
    return write(CLAIMS, name, spec={"devices": devices})


def definition(number: int, versions: int, fields: int) -> Write:
    """Return a definition with many versions of a schema of many fields."""
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in flags(fields, "f")}}
    spec = {"type": "object", "properties": {"spec": schema}}
    plural = f"things{number}"
    return write_marked(
        DEFINITIONS,
        f"{plural}.example{number}.com",
        spec={
            "group": f"example{number}.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": f"Thing{number}"},
            "versions": [
                {"name": f"v{at + 1}", "served": True, "storage": not at, "schema": {"openAPIV3Schema": spec}}
                for at in range(versions)
            ],
        },
    )


def node(number: int, **fields: Any) -> Write:
    return write_marked("/api/v1/nodes", f"joined-{number}", **fields)


def node_status(number: int, **status: Any) -> Write:
    """Return what the kubelet of a joined node writes."""
    path = f"/api/v1/nodes/joined-{number}/status"
    return Write(path, {"status": status}, "PATCH", "application/merge-patch+json")


def chain(count: int) -> Steps:
    """Return objects each of which is owned by the one before it, with an owner that does not exist at the end."""
    return [
        [
            write(f"{CORE}/configmaps", f"c{number}", metadata={"ownerReferences": owner_references(number + 2)[-1:]})
            for number in range(count)
        ]
    ]


MORE_PRODUCTS: dict[str, Product] = {
    "audiences of tokens": lambda n: [[token_request(audiences=list(flags(20 * n, "a")))] * n],
    "more audiences than a token may have": lambda n: [[token_request(audiences=list(flags(2_000 * n, "a")))] * 4],
    "admission policies, expressions and objects": lambda n: [
        [
            sent
            for number in range(n // 4)
            for sent in policy(f"p{number}", ["object.data.all(k, k != 'x')"] * (n // 4))
        ],
        config_maps(n // 2, data=flags(2 * n)),
    ],
    "expensive admission policies": lambda n: [
        policy("p", ["object.data.all(k, object.data.all(l, k != l + 'x'))"] * (n // 8)),
        config_maps(n // 8, data=flags(3 * n)),
    ],
    "match conditions of webhooks and objects": lambda n: [
        [
            write_marked(
                f"{ADMISSION}/validatingwebhookconfigurations",
                f"w{number}",
                webhooks=[
                    {
                        "name": f"h{at}.example.com",
                        "clientConfig": {"url": "https://127.0.0.1:1/x"},
                        "rules": [
                            {
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "operations": ["CREATE"],
                                "resources": ["configmaps"],
                            }
                        ],
                        "failurePolicy": "Ignore",
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "matchConditions": [{"name": f"c{at}", "expression": "object.data.exists(k, k == 'absent')"}],
                    }
                    for at in range(n // 2)
                ],
            )
            for number in range(n // 10)
        ],
        config_maps(n // 2, data=flags(n)),
    ],
    "devices, requests and selectors of claims": lambda n: [
        [write_marked(f"{DEVICES}/deviceclasses", "gpu", spec={"selectors": [{"cel": {"expression": "true"}}]})],
        device_slices(n // 10, 128),
        [
            claim(f"c{number}", 16, "device.attributes['x.example.com'].k19 == 'x' && device.driver != 'y'")
            for number in range(n // 10)
        ],
        [
            pod(
                number,
                node=False,
                resourceClaims=[{"name": "r", "resourceClaimName": f"c{number}"}],
            )
            for number in range(n // 10)
        ],
    ],
    "claims that no device satisfies": lambda n: [
        [write_marked(f"{DEVICES}/deviceclasses", "gpu", spec={"selectors": [{"cel": {"expression": "true"}}]})],
        device_slices(n // 10, 128),
        [claim("c", 32, "device.attributes['x.example.com'].k19 == 'y'")],
        [pod(number, node=False, resourceClaims=[{"name": "r", "resourceClaimName": "c"}]) for number in range(n // 4)],
    ],
    "volumes and claims that wait for them": lambda n: [
        [
            write_marked(
                "/api/v1/persistentvolumes",
                f"v{number}",
                metadata={"labels": flags(n)},
                spec={
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/absent"},
                    "storageClassName": "absent",
                },
            )
            for number in range(2 * n)
        ],
        [
            write(
                f"{CORE}/persistentvolumeclaims",
                f"c{number}",
                spec={
                    "accessModes": ["ReadWriteMany"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "absent",
                    "selector": {"matchLabels": flags(n)},
                },
            )
            for number in range(n)
        ],
    ],
    "definitions, versions, fields and discovery": lambda n: [
        [definition(number, n // 4, 5 * n) for number in range(n // 10)],
        [Write("/apis", None, "GET")] * n,
        [Write("/openapi/v3", None, "GET")] * n,
        [Write(f"/openapi/v3/apis/example0.com/v{at + 1}", None, "GET") for at in range(n // 4)],
    ],
    "aggregated groups and discovery": lambda n: [
        [
            write_marked(
                "/apis/apiregistration.k8s.io/v1/apiservices",
                f"v1.g{number}.example.org",
                spec={
                    "group": f"g{number}.example.org",
                    "version": "v1",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 10,
                    "service": {"namespace": NAMESPACE, "name": "absent"},
                    "insecureSkipTLSVerify": True,
                },
            )
            for number in range(2 * n)
        ],
        [Write("/apis", None, "GET")] * n,
        [Write(f"/apis/apiregistration.k8s.io/v1/apiservices{SELECTOR}", None, "DELETE")],
    ],
    "schema, objects and managers of a custom resource": lambda n: [
        [
            write_marked(
                DEFINITIONS,
                "things.example.com",
                spec={
                    "group": "example.com",
                    "scope": "Namespaced",
                    "names": {"plural": "things", "kind": "Thing"},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {
                                    "type": "object",
                                    "properties": {
                                        "spec": {
                                            "type": "object",
                                            "additionalProperties": {
                                                "type": "object",
                                                "additionalProperties": {"type": "string", "maxLength": 9},
                                                "maxProperties": 100,
                                                "x-kubernetes-validations": [{"rule": "self.all(k, k != 'x')"}],
                                            },
                                            "maxProperties": 100,
                                        }
                                    },
                                }
                            },
                        }
                    ],
                },
            )
        ],
        [
            Write(
                f"/apis/example.com/v1/namespaces/{NAMESPACE}/things/t?fieldManager=m{number}&force=true",
                {
                    "apiVersion": "example.com/v1",
                    "kind": "Thing",
                    "metadata": {"name": "t"},
                    "spec": {key: flags(n, value=f"y{number}") for key in flags(n)},
                },
                "PATCH",
                "application/apply-patch+yaml",
            )
            for number in range(n // 4)
        ],
    ],
    "flow schemas, subjects and requests": lambda n: [
        [
            write_marked(
                f"{FLOWS}/flowschemas",
                f"f{number}",
                spec={
                    "priorityLevelConfiguration": {"name": "catch-all"},
                    "matchingPrecedence": 10 + number,
                    "rules": [
                        {
                            "subjects": [{"kind": "User", "user": {"name": name}} for name in flags(n, "u")],
                            "resourceRules": [
                                {
                                    "verbs": ["get"],
                                    "apiGroups": [""],
                                    "resources": list(flags(n, "r")),
                                    "namespaces": list(flags(n, "n")),
                                }
                            ],
                        }
                    ]
                    * (n // 8),
                },
            )
            for number in range(n // 2)
        ],
        config_maps(2 * n),
    ],
    "images, volumes, addresses and conditions of joined nodes": lambda n: [
        [node(number, spec={}) for number in range(n // 10)],
        [
            node_status(
                number,
                images=[
                    {"names": [f"i{at}.example.com/a:{image}" for image in range(5)], "sizeBytes": 9}
                    for at in range(20 * n)
                ],
                volumesInUse=[f"kubernetes.io/csi/d^{at}" for at in range(10 * n)],
                volumesAttached=[{"name": f"d^{at}", "devicePath": "/d"} for at in range(10 * n)],
                conditions=[{"type": f"C{at}", "status": "True"} for at in range(5 * n)],
                capacity={f"example.com/r{at}": "9" for at in range(10 * n)},
                allocatable={f"example.com/r{at}": "9" for at in range(10 * n)},
            )
            for number in range(n // 10)
        ],
        pods(n // 4, node=False),
    ],
    "taints, labels and annotations of joined nodes": lambda n: [
        [
            node(
                number,
                metadata={"labels": flags(10 * n), "annotations": flags(50 * n)},
                spec={"taints": [{"key": key, "effect": "NoExecute"} for key in flags(10 * n, "t")]},
            )
            for number in range(n // 10)
        ],
        pods(n // 4, node=False, tolerations=[{"key": key, "operator": "Exists"} for key in flags(10 * n, "t")]),
    ],
    "joined nodes that never report, and pods on them": lambda n: [
        [node(number, spec={"podCIDRs": [f"10.{number}.0.0/24"]}) for number in range(n // 2)],
        [pod(number, nodeName=f"joined-{number % (n // 2)}") for number in range(2 * n)],
    ],
    "leases of joined nodes": lambda n: [
        [
            write(
                f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
                f"l{number}",
                metadata={"annotations": flags(10 * n)},
                spec={"holderIdentity": "x" * 1_000, "leaseDurationSeconds": 1},
            )
            for number in range(2 * n)
        ]
    ],
    "drivers and attachments of joined nodes": lambda n: [
        [
            write_marked(
                f"{STORAGE}/csinodes",
                f"joined-{number}",
                spec={
                    "drivers": [
                        {"name": f"d{at}.example.com", "nodeID": "i", "topologyKeys": list(flags(n, "t"))}
                        for at in range(2 * n)
                    ]
                },
            )
            for number in range(n // 10)
        ],
        [
            write_marked(
                f"{STORAGE}/volumeattachments",
                f"a{number}",
                spec={
                    "attacher": f"d{number}.example.com",
                    "nodeName": f"node-{number % 2}",
                    "source": {"persistentVolumeName": f"v{number}"},
                },
            )
            for number in range(2 * n)
        ],
    ],
    "signing requests of joined nodes": lambda n: [
        [
            write_marked(
                REQUESTS,
                f"r{number}",
                metadata={"annotations": flags(50 * n)},
                spec={"signerName": "example.com/s", "usages": ["client auth", "digital signature"], "request": CSR},
            )
            for number in range(n // 2)
        ]
    ],
    "topology spread constraints and pods": lambda n: [
        pods(
            n // 2,
            node=False,
            labels={"a": "b"},
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": f"k{number}",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"a": "b"}},
                }
                for number in range(2 * n)
            ],
        )
    ],
    "revisions of a Deployment that adopts ReplicaSets": lambda n: [
        [
            write(
                f"{APPS}/replicasets",
                f"r{number}",
                metadata={"labels": {"a": "b"}},
                spec={
                    "replicas": 0,
                    "selector": {"matchLabels": {"a": "b", "r": f"v{number}"}},
                    "template": template({"a": "b", "r": f"v{number}"}),
                },
            )
            for number in range(2 * n)
        ],
        [
            write(
                f"{APPS}/deployments",
                f"d{number}",
                spec={"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template({"a": "b"})},
            )
            for number in range(n // 8)
        ],
    ],
    "orphans that many controllers select": lambda n: [
        pods(n, labels={"a": "b"}, node=False, schedulingGates=[{"name": "x"}]),
        [
            write(
                f"{CORE}/replicationcontrollers",
                f"r{number}",
                spec={"replicas": 0, "selector": {"a": "b"}, "template": template({"a": "b"})},
            )
            for number in range(n // 2)
        ],
    ],
    "a chain of owners": lambda n: chain(5 * n),
    "finalizers and objects that are deleted": lambda n: [
        config_maps(2 * n, metadata={"finalizers": [f"example.com/{key}" for key in flags(10 * n)]}),
        [Write(f"{CORE}/configmaps", None, "DELETE")],
        [
            Write(
                f"{CORE}/configmaps/m{number}",
                {"metadata": {"finalizers": None}},
                "PATCH",
                "application/merge-patch+json",
            )
            for number in range(2 * n)
        ],
    ],
    "evictions and disruption budgets": lambda n: [
        pods(n, labels={"a": "b"}),
        [
            write(
                f"{POLICY}/poddisruptionbudgets",
                f"b{number}",
                spec={"maxUnavailable": 0, "selector": {"matchLabels": {"a": "c"}}},
            )
            for number in range(n)
        ],
        [write(f"{CORE}/pods/p{number}/eviction", f"p{number}") for number in range(n)],
    ],
    "rules reviews and roles": lambda n: [
        [
            write(
                f"{RBAC}/roles",
                f"r{number}",
                rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": list(flags(n))}]
                * n,
            )
            for number in range(n // 4)
        ],
        [
            write(
                f"{RBAC}/rolebindings",
                f"b{number}",
                roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": f"r{number % (n // 4)}"},
                subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}],
            )
            for number in range(n // 2)
        ],
        [Write("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": NAMESPACE}})] * (n // 4),
    ],
    "slices of a service with many endpoints": lambda n: [
        [service("s", [{"port": 80}])],
        [
            write(
                SLICES,
                f"s-{number}",
                metadata={"labels": {"kubernetes.io/service-name": "s"}},
                addressType="IPv4",
                ports=[{"name": f"p{at}", "port": at + 1} for at in range(100)],
                endpoints=[
                    {"addresses": [f"10.{number}.{at // 250}.{at % 250}"], "nodeName": f"n{at}"} for at in range(20 * n)
                ],
            )
            for number in range(n // 10)
        ],
    ],
    "source ranges, external addresses and ports of services": lambda n: [
        [
            write(
                f"{CORE}/services",
                f"s{number}",
                spec={
                    "type": "LoadBalancer",
                    "allocateLoadBalancerNodePorts": False,
                    "ports": [{"name": f"p{at}", "port": at + 1} for at in range(5 * n)],
                    "loadBalancerSourceRanges": [f"10.{at // 250}.{at % 250}.0/24" for at in range(20 * n)],
                    "externalIPs": [f"192.0.{2 + at // 250}.{at % 250 + 1}" for at in range(5 * n)],
                },
            )
            for number in range(n // 10)
        ]
    ],
    "secrets and service accounts of pods": lambda n: [
        [
            write_marked(
                f"{CORE}/serviceaccounts",
                "many",
                secrets=[{"name": name} for name in flags(20 * n, "s")],
                imagePullSecrets=[{"name": name} for name in flags(20 * n, "s")],
            )
        ],
        [
            write(
                f"{CORE}/secrets",
                f"s{number}",
                metadata={"annotations": {"kubernetes.io/service-account.name": "many"}},
                type="kubernetes.io/service-account-token",
            )
            for number in range(n)
        ],
        pods(n // 4, serviceAccountName="many"),
    ],
    "projected sources and items of pods": lambda n: [
        config_maps(n // 4, data=flags(5 * n)),
        [
            pod(
                number,
                volumes=[
                    {
                        "name": f"v{at}",
                        "projected": {
                            "sources": [
                                {
                                    "configMap": {
                                        "name": f"m{source}",
                                        "items": [{"key": "k0", "path": f"p{at}/{source}"}],
                                    }
                                }
                                for source in range(n)
                            ]
                        },
                    }
                    for at in range(n // 2)
                ],
            )
            for number in range(n // 10)
        ],
    ],
    "priority classes and pods that preempt": lambda n: [
        [write_marked("/apis/scheduling.k8s.io/v1/priorityclasses", f"c{number}", value=number) for number in range(n)],
        [
            pod(
                number,
                node=False,
                priorityClassName=f"c{number}",
                containers=containers(1, resources={"requests": {"cpu": "20"}}),
            )
            for number in range(n)
        ],
    ],
    "pages of large lists": lambda n: [
        config_maps(5 * n, metadata={"annotations": flags(20 * n)}),
        [Write(f"{CORE}/configmaps?limit=3", None, "GET")] * n,
        [Write(f"{CORE}/configmaps?resourceVersionMatch=Exact&resourceVersion=1", None, "GET")] * n,
    ],
    "Jobs with equal selectors": lambda n: [
        [
            write(
                f"{BATCH}/jobs",
                f"j{number}",
                spec={
                    "manualSelector": True,
                    "parallelism": 0,
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": template({"a": "b"}, restartPolicy="Never"),
                },
            )
            for number in range(n)
        ],
        pods(n, labels={"a": "b"}, node=False, schedulingGates=[{"name": "x"}]),
    ],
}
