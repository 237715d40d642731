"""Every kind with the real kubectl: create subcommands, plain and wide tables, explain."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.api.resources.resource import Resource
from sampan.api.scheme import builtin_scheme
from sampan.machinery.pki.certificates import make_ca
from tests.apiserver.every_kind import GOOD
from tests.e2e.kubectl.command import Kubectl

SERVED = {f"{resource.qualified}/{resource.version}": resource for resource in builtin_scheme()}
STORED = {name: resource for name, resource in SERVED.items() if resource.storage is not None}
NAME = "kinds-of-this-test"

_SUBJECTS = ["USERS", "GROUPS", "SERVICEACCOUNTS"]
WIDE = {
    "persistentvolumes": ["VOLUMEMODE"],
    "persistentvolumeclaims": ["VOLUMEMODE"],
    "rolebindings.v1.rbac.authorization.k8s.io": _SUBJECTS,
    "clusterrolebindings.v1.rbac.authorization.k8s.io": _SUBJECTS,
    "nodes": ["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"],
}
"""Columns that only wide tables have."""

GENERATED = [
    (
        "clusterrole made --verb=get,list --resource=pods --non-resource-url=",
        "clusterrole",
        "{.rules[0].verbs}",
        '["get","list"]',
    ),
    (
        "clusterrole made --aggregation-rule=a=b",
        "clusterrole",
        "{.aggregationRule.clusterRoleSelectors[0].matchLabels.a}",
        "b",
    ),
    ("clusterrolebinding made --clusterrole=view --user=u", "clusterrolebinding", "{.subjects[0].kind}", "User"),
    ("configmap made --from-literal=a=b", "configmap", "{.data.a}", "b"),
    ("cronjob made --image=i --schedule=0/5_*_*_*_*", "cronjob", "{.spec.concurrencyPolicy}", "Allow"),
    ("deployment made --image=i --replicas=2 --port=80", "deployment", "{.spec.replicas}", "2"),
    (
        "ingress made --class=c --rule=example.com/x*=s:80,tls=t",
        "ingress",
        "{.spec.rules[0].http.paths[0].pathType}",
        "Prefix",
    ),
    ("job made --image=i", "job", "{.spec.completionMode}", "NonIndexed"),
    ("namespace made-in-a-test", "namespace", "{.status.phase}", "Active"),
    (
        "poddisruptionbudget made --selector=a=b --min-available=50%",
        "poddisruptionbudget",
        "{.spec.minAvailable}",
        "50%",
    ),
    ("priorityclass made --value=7 --preemption-policy=Never", "priorityclass", "{.preemptionPolicy}", "Never"),
    ("quota made --hard=pods=3 --scopes=BestEffort", "quota", "{.spec.scopes[0]}", "BestEffort"),
    ("role made --verb=get --resource=pods/log", "role", "{.rules[0].resources[0]}", "pods/log"),
    ("rolebinding made --clusterrole=view --serviceaccount=n:s", "rolebinding", "{.subjects[0].namespace}", "n"),
    ("secret generic made --from-literal=a=b", "secret", "{.type}", "Opaque"),
    (
        "secret docker-registry made --docker-username=u --docker-password=p",
        "secret",
        "{.type}",
        "kubernetes.io/dockerconfigjson",
    ),
    ("service clusterip made --tcp=80:8080", "service", "{.spec.ports[0].targetPort}", "8080"),
    ("service nodeport made --tcp=80", "service", "{.spec.type}", "NodePort"),
    ("service loadbalancer made --tcp=80", "service", "{.spec.allocateLoadBalancerNodePorts}", "true"),
    ("service externalname made --external-name=example.com", "service", "{.spec.externalName}", "example.com"),
    ("serviceaccount made", "serviceaccount", "{.metadata.name}", "made"),
]
"""Arguments of `kubectl create`, the kind that they create, a JSONPath in the object, and its expected value."""


@pytest.mark.parametrize(("words", "kind", "path", "value"), GENERATED, ids=lambda text: text.split(" --")[0])
def test_create_subcommands(kubectl: Kubectl, words: str, kind: str, path: str, value: str) -> None:
    kubectl.needs(1, 24)
    parts = [word.replace("_", " ") for word in words.split() if not word.endswith("url=")]
    name = next(word for word in parts if word.startswith("made"))
    output = kubectl("create", *parts)
    try:
        assert output.endswith(f"/{name} created\n")
        assert kubectl.jsonpath("get", kind, name, path) == value
    finally:
        kubectl("delete", kind, name, "--wait=false")


def test_create_tls_secret(kubectl: Kubectl, tmp_path: Path) -> None:
    pair = make_ca("a", now=time.time())
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    kubectl("create", "secret", "tls", "made", f"--cert={tmp_path / 'crt'}", f"--key={tmp_path / 'key'}")
    assert kubectl.jsonpath("get", "secret", "made", "{.type}") == "kubernetes.io/tls"


# -- tables ----------------------------------------------------------------------------------------------------------


def manifest(resource: Resource) -> dict[str, Any]:
    content = GOOD[resource.group, resource.kind]
    name = content.get("metadata", {}).get("name", NAME)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **content, "metadata": {"name": name}}


def argument(resource: Resource) -> str:
    """Return the resource as an argument for kubectl, with its version."""
    return f"{resource.plural}.{resource.version}.{resource.group}" if resource.group else resource.plural


@pytest.fixture
def one_of_each(kubectl: Kubectl) -> Iterator[Kubectl]:
    """kubectl with an object of every kind."""
    items = [manifest(resource) for resource in STORED.values()]
    distinct = {(item["kind"], item["metadata"]["name"]): item for item in items}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(distinct.values())})
    output = kubectl("create", "-f", "-", stdin=text)
    assert len(output.splitlines()) == len(distinct)
    yield kubectl
    kubectl("delete", "-f", "-", "--timeout=60s", stdin=text)


def tables(kubectl: Kubectl, *form: str) -> dict[str, list[list[str]]]:
    """Return the lines of the table of every kind, with the header first."""
    expected = {argument(resource): resource.plural for resource in STORED.values()}
    blocks = kubectl("get", ",".join(expected), *form).split("\n\n")
    assert len(blocks) == len(expected), blocks
    return {
        name: [re.split(r" {2,}", line.rstrip()) for line in block.splitlines()]
        for name, block in zip(expected, blocks, strict=True)
    }


def test_get_prints_plain_and_wide_tables_of_every_kind(one_of_each: Kubectl) -> None:
    plain, wide = tables(one_of_each), tables(one_of_each, "-o", "wide")
    for resource in STORED.values():
        name = "pod/a" if resource.kind == "Event" else manifest(resource)["metadata"]["name"]
        for head, *rows in (plain[argument(resource)], wide[argument(resource)]):
            assert head[0] in ("NAME", "LAST SEEN"), resource
            assert any(name in " ".join(row).replace(f"/{name}", f" {name}").split() for row in rows), rows
    for kind, columns in WIDE.items():
        assert wide[kind][0] == [*plain[kind][0], *columns]


def test_get_component_statuses(kubectl: Kubectl) -> None:
    rows = kubectl.table("get", "componentstatuses")
    assert rows[0] == ["NAME", "STATUS", "MESSAGE", "ERROR"]
    assert ["etcd-0", "Healthy", "ok"] in rows


# -- explanations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVED)
def test_every_kind_is_explained(kubectl: Kubectl, name: str) -> None:
    kubectl.needs(1, 27)
    resource = SERVED[name]
    output = kubectl("explain", resource.plural, f"--api-version={resource.api_version}")
    lines = output.splitlines()
    assert f"KIND:       {resource.kind}" in lines
    assert f"VERSION:    {resource.version}" in lines
    assert "FIELDS:" in lines
    assert any(line.startswith("  metadata\t") or line.startswith("  apiVersion\t") for line in lines)


def test_a_field_is_explained(kubectl: Kubectl) -> None:
    kubectl.needs(1, 27)
    output = kubectl("explain", "persistentvolumeclaims.spec.resources.requests")
    assert "FIELD: requests <map[string]Quantity>" in output
