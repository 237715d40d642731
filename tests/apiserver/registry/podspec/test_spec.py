"""Errors of new pods, one table for each part of the spec; the messages are those of kube-apiserver."""

from typing import Any

import msgspec
import pytest

from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.spec import validate_pod_template_spec
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE
from tests.apiserver.pods import CONTAINER, errors_of, spec_with_container

C0 = "spec.containers[0]"
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

CONTAINERS = {
    "no container": ({"containers": []}, ["spec.containers: Required value"]),
    "duplicate container name": (
        {"containers": [CONTAINER, CONTAINER]},
        ['spec.containers[1].name: Duplicate value: "c"'],
    ),
    "leading whitespace in image": (
        spec_with_container(image=" x"),
        [f'{C0}.image: Invalid value: " x": must not have leading or trailing whitespace'],
    ),
    "ports": (
        spec_with_container(ports=[{"containerPort": 0}, {"containerPort": 80, "hostPort": 70000, "protocol": "ICMP"}]),
        [
            f"{C0}.ports[0].containerPort: Required value",
            f"{C0}.ports[1].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            f'{C0}.ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
        ],
    ),
    "duplicate host port": (
        spec_with_container(ports=[{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]),
        [f'{C0}.ports[1].hostPort: Duplicate value: "TCP//9"'],
    ),
    "names of environment variables": (
        spec_with_container(env=[{"name": ""}, {"name": "a=b"}, {"name": "ok.1"}]),
        [
            f"{C0}.env[0].name: Required value",
            f'{C0}.env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable '
            "ASCII characters other than '='",
        ],
    ),
    "fieldRef to a label": (
        spec_with_container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]),
        [],
    ),
    "fieldRef with unsupported subscript": (
        spec_with_container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName['a']"}}}]),
        [
            f"{C0}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nodeName['a']\": error converting "
            f"fieldPath: "
            "field label does not support subscript: spec.nodeName['a']"
        ],
    ),
    "unsupported divisor": (
        spec_with_container(
            env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1Ki"}}}]
        ),
        [
            f'{C0}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor\'s values 1m '
            f"and 1 "
            "are supported with the cpu resource"
        ],
    ),
    "fileKeyRef requires emptyDir": (
        {
            **spec_with_container(
                env=[{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "K"}}}]
            ),
            "volumes": [{"name": "v", "configMap": {"name": "m"}}],
        },
        [
            f'{C0}.env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": referenced volume must be of type '
            f"emptyDir"
        ],
    ),
    "probe with two handlers": (
        spec_with_container(
            livenessProbe={"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}, "successThreshold": 2}
        ),
        [
            f"{C0}.livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
            f"{C0}.livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    ),
    "preStop sleep longer than grace period": (
        spec_with_container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        [
            f"{C0}.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than "
            "terminationGracePeriodSeconds (30)"
        ],
    ),
    "restart rules without restart policy": (
        spec_with_container(restartPolicyRules=[{"action": "Restart"}]),
        [
            f"{C0}.restartPolicy: Required value: must specify restartPolicy when restart rules are used",
            f"{C0}.restartPolicyRules[0].exitCodes: Required value: must be specified",
        ],
    ),
    "resize policy forbidden by restart policy": (
        {
            **spec_with_container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            "restartPolicy": "Never",
        },
        [
            f"{C0}.resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` "
            f"is "
            "'Never'"
        ],
    ),
    "init container with restart on resize": (
        {
            "initContainers": [
                {
                    "name": "i",
                    "image": "x",
                    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
                }
            ]
        },
        [
            'spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must not be '
            "set to "
            "'RestartContainer' for non-sidecar initContainers"
        ],
    ),
}

RESOURCES = {
    "request above limit": (
        spec_with_container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}),
        [f'{C0}.resources.requests: Invalid value: "1500m": must be less than or equal to cpu limit of 1'],
    ),
    "huge pages not a multiple of page size": (
        spec_with_container(resources={"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}),
        [
            f'{C0}.resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
            "hugepages-2Mi",
            f'{C0}.resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
            "hugepages-2Mi",
        ],
    ),
    "reference to missing resource claim": (
        spec_with_container(resources={"claims": [{"name": "x"}]}),
        [
            f'{C0}.resources.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is '
            f"empty"
        ],
    ),
    "resource claim without source": (
        {"resourceClaims": [{"name": "x"}]},
        [
            "spec.resourceClaims[0]: Invalid value: "
            '{"Name":"x","ResourceClaimName":null,"ResourceClaimTemplateName":null}'
            ": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        ],
    ),
    "pod-level request below container requests": (
        {**spec_with_container(resources={"requests": {"cpu": "2"}}), "resources": {"requests": {"cpu": "1"}}},
        [
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container '
            "requests of 2"
        ],
    ),
    "unsupported pod-level resource": (
        {"resources": {"requests": {"ephemeral-storage": "1"}}},
        [
            'spec.resources.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: '
            '"cpu", '
            '"hugepages-", "memory"'
        ],
    ),
}

VOLUMES = {
    "duplicate volume name": (
        {"volumes": [{"name": "v"}, {"name": "v"}]},
        ['spec.volumes[1].name: Duplicate value: "v"'],
    ),
    "mount of invalid volume": (
        {
            **spec_with_container(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            "volumes": [{"name": "v", "configMap": {}}],
        },
        ["spec.volumes[0].configMap.name: Required value", f'{C0}.volumeMounts[0].name: Not found: "v"'],
    ),
    "default mode above 0777": (
        {"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]},
        [
            "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both "
            "inclusive"
        ],
    ),
    "item path with backsteps": (
        {"volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "..x/../y"}]}}]},
        [
            "spec.volumes[0].configMap.items[0].path: Invalid value: \"..x/../y\": must not contain '..'",
            "spec.volumes[0].configMap.items[0].path: Invalid value: \"..x/../y\": must not start with '..'",
        ],
    ),
    "token expiration too short": (
        {
            "serviceAccountName": "s",
            "volumes": [
                {
                    "name": "v",
                    "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}]},
                }
            ],
        },
        [
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not "
            "specify "
            "a duration less than 10 minutes"
        ],
    ),
    "pod certificates": (
        {
            "volumes": [
                {
                    "name": "v",
                    "projected": {
                        "sources": [
                            {
                                "podCertificate": {
                                    "signerName": "kubernetes.io/s",
                                    "keyType": "x",
                                    "maxExpirationSeconds": 86401,
                                    "userAnnotations": {"a": "b", "c.d/e": "f"},
                                }
                            },
                            {
                                "podCertificate": {
                                    "signerName": "e.com/s",
                                    "keyType": "ED25519",
                                    "maxExpirationSeconds": 3599,
                                    "keyPath": "same",
                                    "certificateChainPath": "same",
                                }
                            },
                        ]
                    },
                }
            ],
        },
        [
            'spec.volumes[0].projected.sources[0].podCertificate.userAnnotations: Invalid value: "a": must be a '
            'domain-prefixed key (such as "acme.io/foo")',
            'spec.volumes[0].projected.sources[0].podCertificate.keyType: Unsupported value: "x": supported values: '
            '"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"',
            "spec.volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 86401: if "
            "provided, maxExpirationSeconds must be <= 86400",
            "spec.volumes[0].projected.sources[0].podCertificate: Required value: specify at least one of "
            "credentialBundlePath, keyPath, and certificateChainPath",
            "spec.volumes[0].projected.sources[1].podCertificate.maxExpirationSeconds: Invalid value: 3599: if "
            "provided, maxExpirationSeconds must be >= 3600",
            'spec.volumes[0].projected: Invalid value: "same": conflicting duplicate paths',
        ],
    ),
    "cluster trust bundles": (
        {
            "volumes": [
                {
                    "name": "v",
                    "projected": {
                        "sources": [
                            {"clusterTrustBundle": {"path": "a"}},
                            {"clusterTrustBundle": {"path": "a", "name": "e.com:s:B"}},
                            {"clusterTrustBundle": {"path": "b", "name": "x", "labelSelector": {}}},
                            {"clusterTrustBundle": {"path": "", "signerName": ""}},
                        ]
                    },
                }
            ],
        },
        [
            "spec.volumes[0].projected.sources[0].clusterTrustBundle: Required value: either name or signerName must "
            "be specified",
            'spec.volumes[0].projected.sources[1].clusterTrustBundle.name: Invalid value: "e.com:s:B": not a valid '
            "clustertrustbundlename: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
            "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
            "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            'spec.volumes[0].projected: Invalid value: "a": conflicting duplicate paths',
            "spec.volumes[0].projected.sources[2].clusterTrustBundle.labelSelector: Invalid value: {}: labelSelector "
            "must be unset if name is specified",
            "spec.volumes[0].projected.sources[3].clusterTrustBundle.signerName: Required value: must be a valid "
            "signer name",
            "spec.volumes[0].projected.sources[3].clusterTrustBundle.signerName: Required value",
            "spec.volumes[0].projected.sources[3].clusterTrustBundle.path: Required value",
        ],
    ),
    "token without service account": (
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        [
            "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
            "serviceAccountName is not set"
        ],
    ),
    "invalid ephemeral volume claim": (
        {
            "volumes": [
                {"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "x"}, "spec": {}}}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "a-v"}},
            ]
        },
        [
            "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is "
            "required",
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            'spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "a-v": must not reference a PVC that gets '
            "created for an ephemeral volume",
        ],
    ),
    "invalid iSCSI name": (
        {"volumes": [{"name": "v", "iscsi": {"targetPortal": "p", "iqn": "bad", "lun": 256}}]},
        [
            'spec.volumes[0].iscsi.iqn: Invalid value: "bad": must be valid format starting with iqn, eui, or naa',
            "spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
        ],
    ),
    "several volume sources": (
        {"volumes": [{"name": "v", "emptyDir": {}, "downwardAPI": {}, "cephfs": {"monitors": ["m"]}}]},
        [
            "spec.volumes[0].cephFS: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[0].downwarAPI: Forbidden: may not specify more than 1 volume type",
        ],
    ),
    "volume device without claim": (
        {**spec_with_container(volumeDevices=[{"name": "v", "devicePath": "/d/../e"}]), "volumes": [{"name": "v"}]},
        [
            f'{C0}.volumeDevices[0].name: Invalid value: "v": can only use volume source type of '
            f"PersistentVolumeClaim or "
            "Ephemeral for block mode",
            f"{C0}.volumeDevices[0].devicePath: Invalid value: \"/d/../e\": can not contain backsteps ('..')",
        ],
    ),
    "recursive read-only without read-only": (
        {
            **spec_with_container(volumeMounts=[{"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}]),
            "volumes": [{"name": "v"}],
        },
        [f"{C0}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"],
    ),
}

SECURITY = {
    "network sysctl with host network": (
        {"hostNetwork": True, "securityContext": {"sysctls": [{"name": "net/ipv4/ip_forward", "value": "1"}]}},
        [
            'spec.securityContext.sysctls[0].name: Invalid value: "net/ipv4/ip_forward": may not be specified when '
            "'hostNetwork' is true"
        ],
    ),
    "CAP_SYS_ADMIN without privilege escalation": (
        spec_with_container(
            securityContext={"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}
        ),
        [
            f"{C0}.securityContext: Invalid value: "
            f'{{"Capabilities":{{"Add":["CAP_SYS_ADMIN"],"Drop":null}},"Privileged":'
            'null,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,'
            '"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,'
            '"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` '
            "CAP_SYS_ADMIN"
        ],
    ),
    "unmasked proc mount with host users": (
        spec_with_container(securityContext={"procMount": "Unmasked"}),
        [f'{C0}.securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`'],
    ),
    "invalid Windows user name": (
        spec_with_container(securityContext={"windowsOptions": {"runAsUserName": "a\\b\\c"}}),
        [
            f'{C0}.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\\\b\\\\c": runAsUserName cannot '
            f"contain "
            "more than one backslash"
        ],
    ),
    "host process in one of two containers": (
        {
            "containers": [
                {**CONTAINER, "securityContext": {"windowsOptions": {"hostProcess": True}}},
                {"name": "d", "image": "x"},
            ]
        },
        [
            'spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be '
            "HostProcess "
            "containers",
            "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess "
            "containers",
        ],
    ),
    "AppArmor profile with whitespace": (
        spec_with_container(securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": " x"}}),
        [
            f'{C0}.securityContext.appArmorProfile.localhostProfile: Invalid value: " x": must not be padded with '
            f"whitespace"
        ],
    ),
}

SECURITY |= {
    "unsupported SELinux change policy": (
        {"securityContext": {"seLinuxChangePolicy": "Odd"}},
        [
            'spec.securityContext.seLinuxChangePolicy: Unsupported value: "Odd": supported values: "MountOption", '
            '"Recursive"'
        ],
    ),
    "restart rules of init container without restart policy": (
        {"initContainers": [{"name": "i", "image": "x", "restartPolicyRules": [{"action": "odd"}]}]},
        [
            "spec.initContainers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are "
            "used"
        ],
    ),
}

SCHEDULING = {
    "matchLabelKeys in selector already": (
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 2},
                    "matchLabelKeys": ["a"],
                }
            ]
        },
        [
            'spec.topologySpreadConstraints[0][0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector',
        ],
    ),
    "matchLabelKeys without selector": (
        {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", "matchLabelKeys": ["a"]}]
                }
            }
        },
        [
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: "
            "must "
            "not be specified when labelSelector is not set"
        ],
    ),
    "numeric toleration operator": (
        {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
        ['spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"'],
    ),
    "hostname override with host network": (
        {"hostnameOverride": "a" * 65, "hostNetwork": True},
        [
            "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
            "spec.hostnameOverride: Too long: may not be more than 64 bytes",
        ],
    ),
    "unsupported preemption policy": (
        {"preemptionPolicy": "Sometimes"},
        [
            'spec.preemptionPolicy: Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"',
        ],
    ),
    "negative overhead": (
        {"overhead": {"cpu": "-1"}},
        ['spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
}

ALL = {**CONTAINERS, **RESOURCES, **VOLUMES, **SECURITY, **SCHEDULING}


@pytest.mark.parametrize(("spec", "expected"), ALL.values(), ids=ALL.keys())
def test_errors(spec: dict[str, Any], expected: list[str]) -> None:
    assert errors_of(spec) == expected


def test_all_errors_are_reported_in_field_order() -> None:
    errors = errors_of(
        {
            "containers": [{"name": "A"}],
            "volumes": [{"name": "V"}],
            "restartPolicy": "x",
            "nodeName": "N_",
            "schedulingGates": [{"name": "a/b"}],
        }
    )
    assert [text.partition(": ")[0] for text in errors] == [
        "spec.volumes[0].name",
        "spec.containers[0].name",
        "spec.containers[0].image",
        "spec.restartPolicy",
        "spec.nodeName",
        "spec.nodeName",
    ]
    assert errors[0] == f'spec.volumes[0].name: Invalid value: "V": {LABEL}'


ANNOTATIONS = {
    "mirror pod without node": (
        {"kubernetes.io/config.mirror": "x"},
        [
            'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror '
            "pod "
            "annotation is set"
        ],
    ),
    "invalid pod deletion cost": (
        {"controller.kubernetes.io/pod-deletion-cost": "+1"},
        [
            'metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit '
            "integer"
        ],
    ),
    "AppArmor profile of missing container": (
        {"container.apparmor.security.beta.kubernetes.io/x": "unconfined"},
        [
            'metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]: Invalid value: "x": container not '
            "found"
        ],
    ),
    "invalid seccomp profile": (
        {"seccomp.security.alpha.kubernetes.io/pod": "odd"},
        [
            'metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "odd": must be a valid '
            "seccomp "
            "profile"
        ],
    ),
}


@pytest.mark.parametrize(("annotations", "expected"), ANNOTATIONS.values(), ids=ANNOTATIONS.keys())
def test_annotation_errors(annotations: dict[str, str], expected: list[str]) -> None:
    assert errors_of({}, annotations=annotations) == expected


@pytest.mark.parametrize("cost", ["0", "-7", "2147483647", "-2147483648"])
def test_a_pod_deletion_cost_is_a_32_bit_integer(cost: str) -> None:
    assert errors_of({}, annotations={"controller.kubernetes.io/pod-deletion-cost": cost}) == []


def test_apparmor_field_and_annotation_must_match() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    spec = spec_with_container(securityContext={"appArmorProfile": {"type": "RuntimeDefault"}})
    assert errors_of(spec, annotations={key: "unconfined"}) == [
        f"{C0}.securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match"
    ]
    assert errors_of(spec, annotations={key: "runtime/default"}) == []


def test_template_allows_image_whitespace_and_forbids_ephemeral_containers() -> None:
    value = {
        "metadata": {"labels": {"-a": "b"}},
        "spec": {
            **spec_with_container(image=" x "),
            "volumes": [{"name": "v", "image": {}}],
            "ephemeralContainers": [CONTAINER],
        },
    }
    template = msgspec.convert(value, PodTemplateSpec)
    default_template(template)
    fields = [str(fault).partition(": ")[0] for fault in validate_pod_template_spec(template, NEW_TEMPLATE, "template")]
    assert fields == [
        "template.labels",
        "template.spec.volumes[0].image.reference",
        "template.spec.ephemeralContainers[0].name",
        "template.spec.ephemeralContainers",
    ]
