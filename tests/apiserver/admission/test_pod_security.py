from typing import Any

import pytest

from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.pod_security.plugin import is_significant, order_by_controller, warnings_about
from sampan.apiserver.admission.pod_security.policy import (
    LATEST,
    PREFIX,
    NamespacePolicy,
    PodSecurityStandard,
    policy_of,
    read,
)
from sampan.apiserver.admission.pod_security.standards import violations
from sampan.apiserver.admission.pod_security.violations import describe_violations
from tests.apiserver.cluster import NAMESPACE, Cluster, run_in_cluster
from tests.apiserver.pods import pod, spec_with_container

BASELINE, RESTRICTED = PodSecurityStandard("baseline"), PodSecurityStandard("restricted")
RESTRICTED_CONTEXT: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
ESCALATION = 'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)'


def restricted_container(**changes: Any) -> dict[str, Any]:
    return spec_with_container(securityContext={**RESTRICTED_CONTEXT, **changes})


def violations_text(standard: PodSecurityStandard, spec: dict[str, Any], **metadata: Any) -> str:
    new_pod = pod(spec, **metadata)
    return describe_violations(violations(standard, new_pod.metadata, new_pod.spec))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, ""),
        (
            spec_with_container(securityContext={"privileged": True}),
            'privileged (container "c" must not set securityContext.privileged=true)',
        ),
        ({"hostNetwork": True, "hostIPC": True}, "host namespaces (hostNetwork=true, hostIPC=true)"),
        (
            {"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "hostPath": {"path": "/"}}]},
            'hostPath volumes (volumes "a", "b")',
        ),
        (
            spec_with_container(ports=[{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 10}]),
            'hostPort (container "c" uses hostPorts 10, 9)',
        ),
        (
            spec_with_container(livenessProbe={"httpGet": {"host": "x", "port": 1}}),
            'probe or lifecycle host (container "c" uses probe or lifecycle host "x")',
        ),
        (
            spec_with_container(securityContext={"capabilities": {"add": ["NET_RAW", "CHOWN"]}}),
            'non-default capabilities (container "c" must not include "NET_RAW" in securityContext.capabilities.add)',
        ),
        (
            {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
        ),
        (
            {"securityContext": {"seLinuxOptions": {"type": "x_t", "user": "u", "role": "r"}}},
            'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "x_t"; user may not be set; '
            "role may not be set)",
        ),
        (
            {"securityContext": {"sysctls": [{"name": "a.b", "value": "1"}, {"name": "net.ipv4.tcp_rmem"}]}},
            "forbidden sysctls (a.b)",
        ),
        (
            {
                "securityContext": {"seccompProfile": {"type": "Unconfined"}},
                **spec_with_container(securityContext={"seccompProfile": {"type": "Odd"}}),
            },
            'seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to '
            '"Odd", "Unconfined")',
        ),
        (
            spec_with_container(securityContext={"procMount": "Unmasked"}),
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        ({"hostUsers": False, **spec_with_container(securityContext={"procMount": "Unmasked"})}, ""),
        (
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ],
)
def test_baseline_violations(spec: dict[str, Any], text: str) -> None:
    assert violations_text(BASELINE, spec) == text


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (restricted_container(), ""),
        (
            {},
            f"{ESCALATION}, "
            'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
            'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
            'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" '
            'or "Localhost")',
        ),
        (
            restricted_container(capabilities={"add": ["CHOWN"], "drop": ["ALL"]}),
            'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
        ),
        (restricted_container(runAsUser=0), 'runAsUser=0 (container "c" must not set runAsUser=0)'),
        ({"hostUsers": False, **restricted_container(runAsUser=0, runAsNonRoot=False)}, ""),
        (
            {"securityContext": {"runAsNonRoot": False}, **restricted_container(runAsNonRoot=False)},
            'runAsNonRoot != true (pod and container "c" must not set securityContext.runAsNonRoot=false)',
        ),
        (
            {
                "volumes": [{"name": "a", "nfs": {"server": "s", "path": "/"}}, {"name": "b", "emptyDir": {}}],
                **restricted_container(),
            },
            'restricted volume types (volume "a" uses restricted volume type "nfs")',
        ),
        ({"os": {"name": "windows"}, **spec_with_container(securityContext={"runAsNonRoot": True})}, ""),
    ],
)
def test_restricted_violations(spec: dict[str, Any], text: str) -> None:
    assert violations_text(RESTRICTED, spec) == text


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        (7, 'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)'),
        (
            8,
            f'{ESCALATION}, runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
        ),
        (99, violations_text(RESTRICTED, {})),
    ],
)
def test_a_standard_has_the_checks_of_its_version(minor: int, text: str) -> None:
    assert violations_text(PodSecurityStandard("restricted", minor), {}) == text


def test_seccomp_annotation_is_checked_only_before_v1_19() -> None:
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    text = 'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    assert violations_text(PodSecurityStandard("baseline", 18), {}, annotations=annotations) == text
    assert violations_text(PodSecurityStandard("baseline", 19), {}, annotations=annotations) == ""


def labels(**values: str) -> dict[str, str]:
    return {PREFIX + name.replace("_", "-"): value for name, value in values.items()}


@pytest.mark.parametrize(
    ("labels", "policy", "error_count"),
    [
        ({}, NamespacePolicy(), 0),
        (labels(enforce="baseline"), NamespacePolicy(enforce=BASELINE, warn=BASELINE), 0),
        (
            labels(enforce="baseline", enforce_version="v1.20", warn="restricted"),
            NamespacePolicy(enforce=PodSecurityStandard("baseline", 20), warn=RESTRICTED),
            0,
        ),
        (labels(audit="restricted"), NamespacePolicy(audit=RESTRICTED), 0),
        (labels(enforce="x", audit="y", warn="z"), NamespacePolicy(enforce=RESTRICTED), 3),
        (labels(enforce_version="1.2", warn_version="v1.02"), NamespacePolicy(), 2),
        (
            labels(enforce="restricted", warn_version="v1.2"),
            NamespacePolicy(enforce=RESTRICTED, warn=PodSecurityStandard("restricted", 2)),
            0,
        ),
    ],
)
def test_labels_of_a_namespace_select_the_policy(
    labels: dict[str, str], policy: NamespacePolicy, error_count: int
) -> None:
    new_policy, errors = policy_of(labels)
    assert (new_policy, len(errors)) == (policy, error_count)


def test_standard_as_text_has_level_and_version() -> None:
    assert [str(BASELINE), str(PodSecurityStandard("restricted", 30))] == ["baseline:latest", "restricted:v1.30"]
    assert BASELINE.minor == LATEST


def test_only_updates_of_containers_and_images_are_significant() -> None:
    old = pod()
    assert not is_significant(old, pod(labels={"a": "b"}))
    assert is_significant(old, pod(spec_with_container(image="other")))
    assert is_significant(old, pod({"ephemeralContainers": [{"name": "e", "image": "x"}]}))


def test_warnings_about_existing_pods_are_grouped_by_violation() -> None:
    host_network = {"hostNetwork": True}
    pods = [
        pod(host_network, name="b"),
        pod(host_network, name="a"),
        pod(host_network, name="c"),
        pod(name="d"),
        pod({"hostPID": True}, name="e"),
    ]
    pods.append(pod(spec_with_container(securityContext={"privileged": True}), name="f"))
    assert warnings_about("ns", BASELINE, pods) == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 3 other pods): host namespaces",
        "f: privileged",
    ]


def test_first_pod_of_each_controller_is_checked_before_its_siblings() -> None:
    def owned_pod(name: str, uid: str) -> Any:
        owner = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "r", "uid": uid, "controller": True}
        return pod(name=name, ownerReferences=[owner])

    pods = [owned_pod("a", "1"), owned_pod("b", "1"), owned_pod("c", "2"), pod(name="d"), pod(name="e")]
    assert [pod.metadata.name for pod in order_by_controller(pods)] == ["a", "c", "d", "e", "b"]


def test_namespace_labels_are_validated_and_enforced_on_new_pods() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod("old", {"hostNetwork": True})
        reply = await cluster.patch(NAMESPACE, {"metadata": {"labels": labels(enforce="baseline", warn="restricted")}})
        assert reply.code == 200
        assert (await cluster.patch(NAMESPACE, {"metadata": {"labels": labels(audit="odd")}})).code == 422
        await cluster.create_pod("fine")
        assert await cluster.try_create_pod({"hostNetwork": True}) == (
            403,
            'pods "a" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
        )
        assert (await cluster.patch(f"{NAMESPACE}/pods/old", {"metadata": {"labels": {"a": "b"}}})).code == 200

    run_in_cluster(work)


CONFIG: dict[str, Any] = {
    "kind": "PodSecurityConfiguration",
    "apiVersion": "pod-security.admission.config.k8s.io/v1",
    "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "audit": "restricted"},
    "exemptions": {"namespaces": ["free"], "runtimeClasses": ["sandboxed"]},
}


def test_configuration_sets_defaults_and_exemptions() -> None:
    config = read(CONFIG)
    assert config.default == NamespacePolicy(enforce=PodSecurityStandard("baseline", 30), audit=RESTRICTED)
    assert (set(config.namespaces), set(config.runtime_classes), set(config.usernames)) == (
        {"free"},
        {"sandboxed"},
        set(),
    )
    assert policy_of(labels(enforce="restricted"), config.default)[0].enforce == PodSecurityStandard("restricted", 30)


def test_null_parts_of_configuration_count_as_absent() -> None:
    absent = {key: CONFIG[key] for key in ("kind", "apiVersion")}
    assert read({**absent, "defaults": None, "exemptions": None}) == read(absent)
    assert read({**absent, "exemptions": {"namespaces": None}}) == read(absent)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kind": "Odd"}, "want kind"),
        ({"defaults": {"enforce": "odd"}}, "defaults.enforce: must be one of"),
        ({"defaults": {"warn-version": "1.2"}}, "defaults.warn-version"),
        ({"defaults": {"refuse": "baseline"}}, "defaults.refuse: there is no such field"),
        ({"exemptions": {"namespaces": "free"}}, "exemptions.namespaces: must be a list"),
        ({"exemptions": {"usernames": ""}}, "exemptions.usernames: must be a list"),
        ({"exemptions": []}, "exemptions: must be an object"),
        ({"defaults": 5}, "defaults: must be an object"),
    ],
)
def test_invalid_configurations_are_rejected(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read({**CONFIG, **change})


def test_configured_defaults_are_enforced_and_exempt_namespace_gets_warning() -> None:
    async def work(cluster: Cluster) -> None:
        assert (await cluster.try_create_pod({"hostNetwork": True}))[0] == 403
        text = 'violates PodSecurity "baseline:v1.30"'
        assert text in (await cluster.try_create_pod({"hostNetwork": True}))[1]
        free = {"metadata": {"name": "free", "labels": labels(enforce="restricted", warn="baseline")}}
        assert await cluster.collect_warnings("/api/v1/namespaces", free) == [
            'namespace "free" is exempt from Pod Security, and the policy (enforce=restricted:v1.30, '
            "warn=baseline:latest) will be ignored"
        ]

    run_in_cluster(work, {"PodSecurity": CONFIG})
