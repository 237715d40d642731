"""Every kind with the real kubectl: create subcommands, plain and wide tables, explain."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sampan.api.resources.resource import Resource
from sampan.api.scheme import builtin_scheme
from sampan.cli.main import cli
from sampan.machinery.pki.certificates import make_ca
from tests.apiserver.every_kind import GOOD
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

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

GENERATED: list[tuple[str, str, dict[str, Any]]] = [
    (
        "clusterrole NAME --verb=get,list --resource=pods",
        "clusterrole.rbac.authorization.k8s.io",
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]},
    ),
    (
        "clusterrole NAME --aggregation-rule=a=b",
        "clusterrole.rbac.authorization.k8s.io",
        {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
    ),
    (
        "clusterrolebinding NAME --clusterrole=view --user=u",
        "clusterrolebinding.rbac.authorization.k8s.io",
        {"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}]},
    ),
    ("configmap NAME --from-literal=a=b", "configmap", {"data": {"a": "b"}}),
    (
        "cronjob NAME --image=i --schedule=0/5_*_*_*_*",
        "cronjob.batch",
        {"spec": {"concurrencyPolicy": "Allow", "schedule": "0/5 * * * *"}},
    ),
    ("deployment NAME --image=i --replicas=2 --port=80", "deployment.apps", {"spec": {"replicas": 2}}),
    (
        "ingress NAME --class=c --rule=example.com/x*=s:80,tls=t",
        "ingress.networking.k8s.io",
        {"spec": {"ingressClassName": "c", "tls": [{"hosts": ["example.com"], "secretName": "t"}]}},
    ),
    ("job NAME --image=i", "job.batch", {"spec": {"completionMode": "NonIndexed"}}),
    ("namespace NAME", "namespace", {"status": {"phase": "Active"}}),
    (
        "poddisruptionbudget NAME --selector=a=b --min-available=50%",
        "poddisruptionbudget.policy",
        {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
    ),
    (
        "priorityclass NAME --value=7 --preemption-policy=Never",
        "priorityclass.scheduling.k8s.io",
        {"value": 7, "preemptionPolicy": "Never"},
    ),
    ("quota NAME --hard=pods=3 --scopes=BestEffort", "resourcequota", {"spec": {"scopes": ["BestEffort"]}}),
    (
        "role NAME --verb=get --resource=pods/log",
        "role.rbac.authorization.k8s.io",
        {"rules": [{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]},
    ),
    (
        "rolebinding NAME --clusterrole=view --serviceaccount=n:s",
        "rolebinding.rbac.authorization.k8s.io",
        {"subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}]},
    ),
    (
        "rolebinding NAME --role=reader --user=ann",
        "rolebinding.rbac.authorization.k8s.io",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}},
    ),
    ("secret generic NAME --from-literal=a=b", "secret", {"type": "Opaque", "data": {"a": "Yg=="}}),
    (
        "secret docker-registry NAME --docker-username=u --docker-password=p",
        "secret",
        {"type": "kubernetes.io/dockerconfigjson"},
    ),
    (
        "service clusterip NAME --tcp=80:8080",
        "service",
        {"spec": {"ports": [{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}]}},
    ),
    ("service nodeport NAME --tcp=80", "service", {"spec": {"type": "NodePort"}}),
    ("service loadbalancer NAME --tcp=80", "service", {"spec": {"allocateLoadBalancerNodePorts": True}}),
    ("service externalname NAME --external-name=example.com", "service", {"spec": {"externalName": "example.com"}}),
    ("serviceaccount NAME", "serviceaccount", {}),
]
"""Arguments of `kubectl create`, the resource that it prints, and fields of the object that it creates."""


@pytest.mark.parametrize(("words", "kind", "fields"), GENERATED, ids=[row[0].replace(" NAME", "") for row in GENERATED])
def test_create_subcommands(
    kubectl: Kubectl, objects: NamespaceObjects, words: str, kind: str, fields: dict[str, Any]
) -> None:
    kubectl.require_version(1, 24)
    name = f"{objects.namespace}-made"
    parts = [word.replace("_", " ").replace("NAME", name) for word in words.split()]
    assert kubectl("create", *parts) == f"{kind}/{name} created\n"
    created = objects.get(f"{kind}/{name}")
    assert select_fields(created, fields) == fields
    if "namespace" not in created["metadata"]:
        objects.delete(f"{kind}/{name}")


def select_fields(value: Any, like: Any) -> Any:
    """Return the part of an object that has the keys of another one."""
    return {key: select_fields(value.get(key), like[key]) for key in like} if isinstance(like, dict) else value


def test_create_tls_secret(kubectl: Kubectl, objects: NamespaceObjects, tmp_path: Path) -> None:
    pair = make_ca("a", now=time.time())
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    kubectl("create", "secret", "tls", "made", f"--cert={tmp_path / 'crt'}", f"--key={tmp_path / 'key'}")
    assert objects.get("secret/made")["type"] == "kubernetes.io/tls"


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


FIRST_OF_VERSION = {resource.api_version: name for name, resource in reversed(SERVED.items())}
"""A resource of each API version: kubectl reads one OpenAPI document for each."""


@pytest.mark.parametrize("name", FIRST_OF_VERSION.values())
def test_kind_of_every_version_is_explained(kubectl: Kubectl, name: str) -> None:
    kubectl.require_version(1, 27)
    check_explanation(SERVED[name], kubectl("explain", *explain_arguments(SERVED[name])))


def test_every_kind_is_explained(sampan_kubeconfig: Path) -> None:
    """`sampan kubectl` reads the same documents as kubectl, without a process for each kind."""
    for resource in SERVED.values():
        words = ["kubectl", "--kubeconfig", str(sampan_kubeconfig), "explain", *explain_arguments(resource)]
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
        check_explanation(resource, result.stdout)


def explain_arguments(resource: Resource) -> tuple[str, str]:
    return resource.plural, f"--api-version={resource.api_version}"


def check_explanation(resource: Resource, output: str) -> None:
    lines = output.splitlines()
    assert f"KIND:       {resource.kind}" in lines
    assert f"VERSION:    {resource.version}" in lines
    assert "FIELDS:" in lines
    for field in ("apiVersion", "kind", "metadata"):
        assert any(line.startswith(f"  {field}\t<") for line in lines), field


def test_a_field_is_explained(kubectl: Kubectl) -> None:
    kubectl.require_version(1, 27)
    output = kubectl("explain", "persistentvolumeclaims.spec.resources.requests")
    assert "FIELD: requests <map[string]Quantity>" in output
