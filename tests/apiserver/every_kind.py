"""A valid object of every stored kind, by group and kind. Users of the table name the objects without a name."""

from typing import Any

Content = dict[str, Any]

LABELS = {"app": "a"}
_POD_SPEC: Content = {"containers": [{"name": "c", "image": "nginx:1"}]}
_TEMPLATE: Content = {"metadata": {"labels": LABELS}, "spec": _POD_SPEC}
_WORKLOAD: Content = {"selector": {"matchLabels": LABELS}, "template": _TEMPLATE}
_JOB: Content = {"template": {"spec": {**_POD_SPEC, "restartPolicy": "Never"}}}
_AUTOSCALER: Content = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
    "minReplicas": 1,
    "maxReplicas": 3,
}
_VOLUME_CLAIM: Content = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_RULE: Content = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
_HOOK: Content = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com/x"},
    "rules": [_RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "matchConditions": [{"name": "m", "expression": "true"}],
}
_POLICY: Content = {"matchConstraints": {"resourceRules": [_RULE]}, "variables": [{"name": "v", "expression": "1"}]}
_REQUEST: Content = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
_DEVICES: Content = {"devices": {"requests": [_REQUEST], "constraints": [{"matchAttribute": "x.example.com/model"}]}}
_SIGNING_REQUEST = (
    "MH8wMwIBADAAMCowBQYDK2VwAyEAHN+eg7Cwj1DG+V1LpeRwxBw06+Uzr7DPhpHgslJgOAugADAFBgMrZXADQQDL3M"
    "L29dN4zzA8F8P0ltD/y4Cv7JCu4kLRY6iPC2G7aOZlLGVHc4H0SqMo0FODXpe9kMr9NYcM1UcP1q4ye4IA"
)
_REFERENCE: Content = {"kind": "Pod", "namespace": "ns", "name": "a"}

CSR = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIZ01JR0dBZ0VBTUNReER6QU5CZ05WQkFvTUJtZHZiR1JsYmpFUk1BOEdBMVVF"
    "QXd3SVoyOXNaR1Z1TFdFdwpXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBUTF2OUdKaGpiUlpqNVQyV25jMk00OFp6UlIvYThPCnlz"
    "dm5IMjNsanR3cjhXQzV4NXF0RW9vWEpuZ0Q3U2tjMjdkZTdNZHVrUjRvV0FvSytIa2JZS2FTb0FBd0NnWUkKS29aSXpqMEVBd0lEU1FBd1JnSWhB"
    "Szl3WnlXSmFnL3FZTXA3MnZwcHArS1NtN3hqRTlua1pNd2xHNy9DOUd3bwpBaUVBaXlXTTFZeEZEbWNhQ2tDZmpNdWhRbjM1aXJPeFdROGxYMUFC"
    "WEY0OFNpST0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="
)
"""A signed certificate request."""

CERTIFICATE = (
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBbjCCARWgAwIBAgIUa40vye6szpnUtHCf+AszOiWosl0wCgYIKoZIzj0EAwIw\n"
    "DDEKMAgGA1UEAwwBYTAgFw0yNjExMjAwMDU1MzRaGA8yMTI2MTAyNzAwNTUzNFow\n"
    "DDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAOq7OQyBYed\n"
    "OgUmK+L7v0BEOz6DSCT6g/sLLa341Wx8Rgz/5wssii+KAHAiaXG26WpA5S46Ovfk\n"
    "Ow4PtDSfQcyjUzBRMB0GA1UdDgQWBBQL8Dw2q7aaCXm0COVSxkHehC5kNzAfBgNV\n"
    "HSMEGDAWgBQL8Dw2q7aaCXm0COVSxkHehC5kNzAPBgNVHRMBAf8EBTADAQH/MAoG\n"
    "CCqGSM49BAMCA0cAMEQCIHEd+F7DzkDio51Y79rFn0CXuzVCvVOjnUpeMPgRhZWn\n"
    "AiBa0/N3ZNoFz8EhtqrZ/H25AOjtJXEYHV6G3ZN1mvQlkA==\n"
    "-----END CERTIFICATE-----\n"
)
"""A self-signed certificate."""

GOOD: dict[tuple[str, str], Content] = {
    ("", "ConfigMap"): {"data": {"a": "b"}},
    ("", "Endpoints"): {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    ("", "Event"): {"involvedObject": _REFERENCE, "reason": "R", "message": "m", "type": "Normal"},
    ("", "LimitRange"): {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
    ("", "Namespace"): {},
    ("", "Node"): {"spec": {"podCIDRs": ["10.2.0.0/24"]}},
    ("", "PersistentVolume"): {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    },
    ("", "PersistentVolumeClaim"): {"spec": _VOLUME_CLAIM},
    ("", "Pod"): {"spec": {**_POD_SPEC, "automountServiceAccountToken": False}},
    ("", "PodTemplate"): {"template": _TEMPLATE},
    ("", "ReplicationController"): {"spec": {"selector": LABELS, "template": _TEMPLATE}},
    ("", "ResourceQuota"): {"spec": {"hard": {"services": "9"}}},
    ("", "Secret"): {"data": {"a": "aGk="}},
    ("", "Service"): {"spec": {"ports": [{"port": 80}], "selector": LABELS}},
    ("", "ServiceAccount"): {},
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): {
        "spec": {
            **_POLICY,
            "mutations": [
                {"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{op: "remove", path: "/spec"}]'}}
            ],
            "reinvocationPolicy": "Never",
        }
    },
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): {"spec": {"policyName": "p"}},
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): {"webhooks": [_HOOK]},
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): {
        "spec": {**_POLICY, "validations": [{"expression": "true", "message": "m"}]}
    },
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): {
        "spec": {"policyName": "p", "validationActions": ["Deny"]}
    },
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {"webhooks": [_HOOK]},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    },
    ("apiregistration.k8s.io", "APIService"): {
        "metadata": {"name": "v1.example.org"},
        "spec": {"group": "example.org", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10},
    },
    ("apps", "ControllerRevision"): {"data": {"a": "b"}, "revision": 1},
    ("apps", "DaemonSet"): {"spec": _WORKLOAD},
    ("apps", "Deployment"): {"spec": _WORKLOAD},
    ("apps", "ReplicaSet"): {"spec": _WORKLOAD},
    ("apps", "StatefulSet"): {"spec": {**_WORKLOAD, "serviceName": "s"}},
    ("autoscaling", "HorizontalPodAutoscaler"): {"spec": _AUTOSCALER},
    ("batch", "CronJob"): {"spec": {"schedule": "1 2 * * *", "jobTemplate": {"spec": _JOB}}},
    ("batch", "Job"): {"spec": _JOB},
    ("certificates.k8s.io", "CertificateSigningRequest"): {
        "spec": {"signerName": "example.com/s", "usages": ["client auth"], "request": CSR}
    },
    ("certificates.k8s.io", "ClusterTrustBundle"): {"spec": {"trustBundle": CERTIFICATE}},
    ("certificates.k8s.io", "PodCertificateRequest"): {
        "spec": {
            "signerName": "example.com/s",
            "podName": "p",
            "podUID": "u",
            "serviceAccountName": "s",
            "serviceAccountUID": "v",
            "nodeName": "n",
            "nodeUID": "w",
            "stubPKCS10Request": _SIGNING_REQUEST,
        }
    },
    ("coordination.k8s.io", "Lease"): {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 5}},
    ("discovery.k8s.io", "EndpointSlice"): {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"port": 80}],
    },
    ("events.k8s.io", "Event"): {
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "Act",
        "reason": "R",
        "type": "Normal",
        "regarding": _REFERENCE,
    },
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): {
        "spec": {
            "priorityLevelConfiguration": {"name": "low"},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": "u"}}],
                    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
                }
            ],
        }
    },
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): {
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 16}}}}
    },
    ("networking.k8s.io", "IPAddress"): {
        "metadata": {"name": "10.99.0.1"},
        "spec": {"parentRef": {"resource": "services", "namespace": "ns", "name": "a"}},
    },
    ("networking.k8s.io", "Ingress"): {
        "spec": {
            "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}},
            "tls": [{"hosts": ["example.com"], "secretName": "t"}],
        }
    },
    ("networking.k8s.io", "IngressClass"): {"spec": {"controller": "example.com/c"}},
    ("networking.k8s.io", "NetworkPolicy"): {
        "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}
    },
    ("networking.k8s.io", "ServiceCIDR"): {"spec": {"cidrs": ["10.98.0.0/24"]}},
    ("node.k8s.io", "RuntimeClass"): {"handler": "runc", "overhead": {"podFixed": {"cpu": "1"}}},
    ("policy", "PodDisruptionBudget"): {"spec": {"selector": {"matchLabels": LABELS}, "minAvailable": 1}},
    ("rbac.authorization.k8s.io", "ClusterRole"): {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    },
    ("rbac.authorization.k8s.io", "Role"): {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ("rbac.authorization.k8s.io", "RoleBinding"): {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "ns"}],
    },
    ("resource.k8s.io", "DeviceClass"): {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    ("resource.k8s.io", "DeviceTaintRule"): {"spec": {"taint": {"key": "example.com/k", "effect": "NoExecute"}}},
    ("resource.k8s.io", "ResourceClaim"): {"spec": _DEVICES},
    ("resource.k8s.io", "ResourceClaimTemplate"): {"spec": {"metadata": {"labels": LABELS}, "spec": _DEVICES}},
    ("resource.k8s.io", "ResourceSlice"): {
        "spec": {
            "driver": "x.example.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d", "attributes": {"model": {"string": "m"}}, "capacity": {"mem": {"value": "1Gi"}}}],
        }
    },
    ("scheduling.k8s.io", "PriorityClass"): {"value": 7},
    ("storage.k8s.io", "CSIDriver"): {"spec": {"tokenRequests": [{"audience": "a"}]}},
    ("storage.k8s.io", "CSINode"): {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "i"}]}},
    ("storage.k8s.io", "CSIStorageCapacity"): {"storageClassName": "c", "capacity": "1Gi"},
    ("storage.k8s.io", "StorageClass"): {"provisioner": "example.com/p"},
    ("storage.k8s.io", "VolumeAttachment"): {
        "spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    ("storage.k8s.io", "VolumeAttributesClass"): {"driverName": "d.example.com", "parameters": {"a": "b"}},
    ("storagemigration.k8s.io", "StorageVersionMigration"): {
        "spec": {"resource": {"group": "example.com", "resource": "chairs"}}
    },
}
