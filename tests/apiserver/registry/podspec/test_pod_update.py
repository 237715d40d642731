from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from sampan.api.types.core_v1 import (
    Affinity,
    Container,
    EphemeralContainer,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSchedulingGate,
    Toleration,
)
from sampan.apiserver.registry.podspec.pod_update import validate_ephemeral_container_update, validate_pod_update
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from tests.apiserver.pods import pod_with_defaults, spec_with_container


def faults(old: Pod, change: Callable[[Pod], Any], *, check: Any = validate_pod_update) -> list[str]:
    new = deepcopy(old)
    change(new)
    return [
        str(fault) for fault in check(new, old, PodValidationOptions(old.spec, old.metadata.annotations, is_pod=True))
    ]


def first_container(pod: Pod) -> Container:
    assert pod.spec.containers is not None
    return pod.spec.containers[0]


def term(*keys: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(matchExpressions=[NodeSelectorRequirement(key=key, operator="Exists") for key in keys])


def require_node_affinity(pod: Pod, *terms: NodeSelectorTerm) -> None:
    required = NodeSelector(nodeSelectorTerms=list(terms))
    pod.spec.affinity = Affinity(nodeAffinity=NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=required))


ALLOWED: dict[str, Callable[[Pod], Any]] = {
    "nothing": lambda pod: None,
    "image": lambda pod: setattr(first_container(pod), "image", "nginx:2"),
    "active deadline": lambda pod: setattr(pod.spec, "activeDeadlineSeconds", 5),
    "additional toleration": lambda pod: pod.spec.tolerations.append(Toleration(key="b", operator="Exists")),
    "toleration seconds": lambda pod: setattr(pod.spec.tolerations[0], "tolerationSeconds", 7),
    "labels": lambda pod: pod.metadata.labels.update(x="y"),
}


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED.keys())
def test_mutable_fields_can_be_updated(change: Callable[[Pod], Any]) -> None:
    old = pod_with_defaults({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]})
    assert faults(old, change) == []


def test_change_of_immutable_field_is_rejected_with_a_diff() -> None:
    (error,) = faults(pod_with_defaults(), lambda pod: setattr(pod.spec, "restartPolicy", "Never"))
    assert error == (
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
        "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
        "@@ -35,7 +35,7 @@\n"
        "   }\n"
        "  ],\n"
        '  "EphemeralContainers": null,\n'
        '- "RestartPolicy": "Always",\n'
        '+ "RestartPolicy": "Never",\n'
        '  "TerminationGracePeriodSeconds": 30,\n'
        '  "ActiveDeadlineSeconds": null,\n'
        '  "DNSPolicy": "ClusterFirst",\n'
    )


@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_containers_cannot_be_added_or_removed(part: str) -> None:
    def add(pod: Pod) -> None:
        containers = getattr(pod.spec, part)
        containers.append(deepcopy(containers[0]))
        containers[-1].name = "added"

    old = pod_with_defaults(
        {
            "containers": [{"name": name, "image": "nginx:1"} for name in ("a", "b")],
            "initContainers": [{"name": name, "image": "nginx:1"} for name in ("c", "d")],
        }
    )
    error = f"spec.{part}: Forbidden: pod updates may not add or remove containers"
    assert faults(old, add) == [error]
    assert faults(old, lambda pod: getattr(pod.spec, part).pop()) == [error]


@pytest.mark.parametrize(
    ("old_s", "new_s", "expected"),
    [
        (50, 60, "Invalid value: 60: must be less than or equal to previous value"),
        (50, None, "Invalid value: null: must not update from a positive integer to nil value"),
        (50, 40, None),
        (None, 40, None),
    ],
)
def test_active_deadline_can_be_set_or_reduced_but_not_extended_or_removed(
    old_s: int | None, new_s: int | None, expected: str | None
) -> None:
    old = pod_with_defaults({"activeDeadlineSeconds": old_s} if old_s else {})
    errors = faults(old, lambda pod: setattr(pod.spec, "activeDeadlineSeconds", new_s))
    assert errors == ([f"spec.activeDeadlineSeconds: {expected}"] if expected else [])


def test_tolerations_cannot_be_removed() -> None:
    old = pod_with_defaults({"tolerations": [{"key": "a", "operator": "Exists"}]})
    text = "existing toleration can not be modified except its tolerationSeconds"
    assert faults(old, lambda pod: pod.spec.tolerations.clear())[0] == f"spec.tolerations: Forbidden: {text}"


def test_scheduling_gates_can_be_removed_but_not_added() -> None:
    old = pod_with_defaults({"schedulingGates": [{"name": "x.io/a"}, {"name": "x.io/b"}]})
    assert faults(old, lambda pod: pod.spec.schedulingGates.pop()) == []
    errors = faults(old, lambda pod: pod.spec.schedulingGates.append(PodSchedulingGate(name="x.io/c")))
    text = "only deletion is allowed, but found new scheduling gate 'x.io/c'"
    assert errors == [f"spec.schedulingGates[2].name: Forbidden: {text}"]


def test_gated_pod_accepts_additional_node_constraints() -> None:
    old = pod_with_defaults({"schedulingGates": [{"name": "x.io/a"}], "nodeSelector": {"a": "b"}})
    assert faults(old, lambda pod: pod.spec.nodeSelector.update(c="d")) == []
    assert faults(old, lambda pod: require_node_affinity(pod, term("k"))) == []
    text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    assert faults(old, lambda pod: pod.spec.nodeSelector.clear()) == [f"spec.nodeSelector: Invalid value: {{}}: {text}"]


def test_gated_pod_keeps_its_node_selector_terms() -> None:
    old = pod_with_defaults({"schedulingGates": [{"name": "x.io/a"}]})
    require_node_affinity(old, term("k"))
    assert faults(old, lambda pod: require_node_affinity(pod, term("k", "l"))) == []
    at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    (error,) = faults(old, lambda pod: require_node_affinity(pod, term("l")))
    assert error == (
        f'{at}[0]: Invalid value: {{"MatchExpressions":[{{"Key":"l","Operator":"Exists","Values":null}}],'
        '"MatchFields":null}: only additions are allowed (no mutations or deletions)'
    )
    (error,) = faults(old, lambda pod: require_node_affinity(pod, term("k"), term("l")))
    assert error.endswith("no additions/deletions to non-empty NodeSelectorTerms list are allowed")


def test_apparmor_annotations_are_immutable() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    old = pod_with_defaults(annotations={key: "unconfined"})
    at = f"metadata.annotations[{key}]"
    assert faults(old, lambda pod: pod.metadata.annotations.clear()) == [
        f"{at}: Forbidden: may not remove or update AppArmor annotations"
    ]
    assert faults(pod_with_defaults(), lambda pod: pod.metadata.annotations.update({key: "unconfined"})) == [
        f"{at}: Forbidden: may not add AppArmor annotations"
    ]


@pytest.mark.parametrize(
    "spec",
    [
        spec_with_container(resources={"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}),
        {"hostNetwork": True, "securityContext": {"sysctls": [{"name": "net.x", "value": "1"}]}},
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"a": "b c"}},
                }
            ]
        },
        {
            "serviceAccountName": "s",
            "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "../t"}}]}}],
        },
    ],
)
def test_invalid_fields_of_stored_pod_do_not_block_image_update(spec: dict[str, Any]) -> None:
    old = pod_with_defaults(spec)
    assert faults(old, lambda pod: setattr(first_container(pod), "image", "nginx:2")) == []


def ephemeral_container(name: str) -> EphemeralContainer:
    return EphemeralContainer(name=name, image="x", terminationMessagePolicy="File", imagePullPolicy="Always")


def test_ephemeral_containers_can_be_added_but_not_changed_or_removed() -> None:
    old = pod_with_defaults()
    old.spec.ephemeralContainers = [ephemeral_container("e")]
    check = validate_ephemeral_container_update
    assert faults(old, lambda pod: pod.spec.ephemeralContainers.append(ephemeral_container("f")), check=check) == []
    assert faults(old, lambda pod: pod.spec.ephemeralContainers.clear(), check=check) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed\n'
    ]
    (error,) = faults(old, lambda pod: setattr(pod.spec.ephemeralContainers[0], "image", "y"), check=check)
    assert error.startswith(
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be changed\n'
    )


def test_static_pods_do_not_support_ephemeral_containers() -> None:
    old = pod_with_defaults({"nodeName": "n"}, annotations={"kubernetes.io/config.mirror": "x"})
    text = "static pods do not support ephemeral containers"
    assert faults(old, lambda pod: None, check=validate_ephemeral_container_update) == [f"[]: Forbidden: {text}"]
