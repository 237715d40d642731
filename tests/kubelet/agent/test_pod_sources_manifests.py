"""Manifests of static pods: defaults, UIDs, lists, and rejected manifests."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.kubelet.agent.pod_sources import BadManifest, read_pods

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {a: b}}
spec:
  containers:
  - {name: c, image: "i:1", resources: {limits: {cpu: 1}}, ports: [{containerPort: 80}]}
"""


def test_a_static_pod_gets_defaults_and_the_name_of_its_node() -> None:
    (pod,) = read_pods(MANIFEST, "file", "n1", 0)
    assert (pod.metadata.name, pod.metadata.namespace, pod.spec.nodeName) == ("web-n1", "default", "n1")
    assert pod.spec.restartPolicy == "Always"
    container = (pod.spec.containers or [])[0]
    assert container.resources.requests == {"cpu": "1"}
    assert (container.imagePullPolicy, container.ports[0].protocol) == ("IfNotPresent", "TCP")
    assert pod.metadata.annotations["kubernetes.io/config.source"] == "file"
    assert len(pod.metadata.uid) == 32
    assert [(toleration.operator, toleration.effect) for toleration in pod.spec.tolerations] == [
        ("Exists", "NoExecute")
    ]


def test_the_uid_changes_with_the_content() -> None:
    (first,), (same,) = (read_pods(MANIFEST, "file", "n1", now) for now in (0, 1))
    (other,) = read_pods(MANIFEST.replace("i:1", "i:2"), "file", "n1", 0)
    assert first.metadata.uid == same.metadata.uid != other.metadata.uid


def test_pod_lists_and_yaml_documents_are_read() -> None:
    item = "{metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}"
    assert len(read_pods(f"apiVersion: v1\nkind: PodList\nitems: [{item}]", "http", "n", 0)) == 1
    assert len(read_pods(f"{MANIFEST}---{MANIFEST}", "file", "n", 0)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "apiVersion: v1\nkind: Service",
        "apiVersion: v1\nkind: Pod\nspec: {}",
        MANIFEST.replace("name: c", "name: 1"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}",
        "apiVersion: v1\nkind: Pod\nmetadata: text\nspec: {containers: [{name: c, image: i}]}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: [1]",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [text]}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: 5}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: [1]}]}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, 1: b, null: c}\nspec: {containers: [{name: c, image: i}]}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: [1]}\nspec: {containers: [{name: c, image: i}]}",
        "apiVersion: v1\nkind: PodList\nitems: [text]",
        "apiVersion: v1\nkind: PodList\nitems: 5",
        "[" * 5000,
        "apiVersion: v1\nkind: Pod\nmetadata: {name: ../a}\nspec: {containers: [{name: c, image: i}]}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: ..}\nspec: {containers: [{name: c, image: i}]}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b/c}\nspec: {containers: [{name: c, image: i}]}",
    ],
)
def test_invalid_manifest_is_rejected(text: str) -> None:
    with pytest.raises(BadManifest):
        read_pods(text, "file", "n", 0)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "a"}]}, "secrets"),
        ({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "a"}}]}]}, "configmaps"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]}, "persistentvolumeclaims"),
        ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "csidrivers (via CSI volumes)"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "serviceaccounts (via projected volumes)",
        ),
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "a"}]}, "resourceclaims"),
    ],
)
def test_a_static_pod_must_not_reference_api_objects(spec: dict[str, Any], kind: str) -> None:
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    value["spec"] = {"containers": [{"name": "c", "image": "i"}], **spec}
    with pytest.raises(BadManifest) as caught:
        read_pods(json.encode(value).decode(), "file", "n", 0)
    assert str(caught.value) == f"pod p-n: static pods may not reference {kind}"


def test_a_static_pod_may_use_volumes_of_the_node() -> None:
    volumes = "[{name: a, emptyDir: {}}, {name: b, hostPath: {path: /}}, {name: c, projected: {sources: []}}]"
    assert len(read_pods(MANIFEST + f"  volumes: {volumes}\n", "file", "n", 0)) == 1
