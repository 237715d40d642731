"""Ingresses, IngressClasses and NetworkPolicies: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.types.networking_v1 import NetworkPolicy
from sampan.apiserver.registry.kinds import networkpolicies
from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.registry.kind_rules import Rules
from tests.apiserver.validation_errors import errors_of_new, named_object

NETWORKING = "/apis/networking.k8s.io/v1"
INGRESSES, POLICIES = f"{NETWORKING}/namespaces/ns/ingresses", f"{NETWORKING}/namespaces/ns/networkpolicies"
CLASSES = f"{NETWORKING}/ingressclasses"
POLICY_RULES = Rules(networkpolicies.BEHAVIOR, NetworkPolicy, {})
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def path(text: str, kind: str = "Exact") -> dict[str, Any]:
    rules = [{"http": {"paths": [{"path": text, "pathType": kind, "backend": BACKEND}]}}]
    return named_object(spec={"rules": rules})


def policy(block: dict[str, Any]) -> dict[str, Any]:
    return named_object(spec={"podSelector": {}, "egress": [{"to": [{"ipBlock": block}]}]})


@pytest.mark.parametrize(
    ("collection", "value", "faults"),
    [
        (INGRESSES, path("", "ImplementationSpecific"), []),
        (
            INGRESSES,
            path("x", "ImplementationSpecific"),
            ['spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path'],
        ),
        (
            INGRESSES,
            path("/a/%2f/.."),
            [
                "spec.rules[0].http.paths[0].path: Invalid value: \"/a/%2f/..\": must not contain '%2f'",
                "spec.rules[0].http.paths[0].path: Invalid value: \"/a/%2f/..\": cannot end with '/..'",
            ],
        ),
        (
            INGRESSES,
            named_object(
                spec={
                    "ingressClassName": "C_",
                    "defaultBackend": {"resource": {"apiGroup": "G_", "kind": "a/b", "name": ""}},
                }
            ),
            [
                f'spec.defaultBackend.resource.apiGroup: Invalid value: "G_": {SUBDOMAIN}',
                "spec.defaultBackend.resource.kind: Invalid value: \"a/b\": may not contain '/'",
                "spec.defaultBackend.resource.name: Required value",
                f'spec.ingressClassName: Invalid value: "C_": {SUBDOMAIN}',
            ],
        ),
        (
            INGRESSES,
            named_object(spec={"defaultBackend": BACKEND, "tls": [{"secretName": "S_"}]}),
            [f'spec.tls[0].secretName: Invalid value: "S_": {SUBDOMAIN}'],
        ),
        (
            CLASSES,
            named_object(
                spec={"controller": "e.com/" + "c" * 250, "parameters": {"kind": "K", "name": "n", "namespace": "x"}}
            ),
            [
                "spec.controller: Too long: may not be more than 250 bytes",
                "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
            ],
        ),
        (
            CLASSES,
            named_object(spec={"controller": "e.com/c", "parameters": {"kind": "K", "name": "n", "scope": "Odd"}}),
            ['spec.parameters.scope: Unsupported value: "Odd": supported values: "Cluster", "Namespace"'],
        ),
        (
            POLICIES,
            policy({"cidr": "10.0.0.1/8", "except": ["10.0.0.0/8", "10.1.0.0/16"]}),
            [
                'spec.egress[0].to[0].ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set beyond the '
                "prefix length",
                'spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict '
                "subset of `cidr`",
            ],
        ),
        (
            POLICIES,
            policy({"cidr": "2001:db8::/32", "except": ["10.1.0.0/16"]}),
            ['spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "10.1.0.0/16": must be a strict subset of `cidr`'],
        ),
    ],
)
def test_errors_of_new_objects(collection: str, value: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_new(collection, value) == faults


def test_generation_counts_spec_changes_but_not_status_changes() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(INGRESSES, named_object(spec={"defaultBackend": BACKEND}))
        status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}, "metadata": {"labels": {"l": "m"}}}
        patched = (await cluster.patch(f"{INGRESSES}/a/status", status)).json
        assert (patched["metadata"]["generation"], patched["metadata"]["labels"]) == (1, {"l": "m"})
        changed = (await cluster.patch(f"{INGRESSES}/a", {"spec": {"ingressClassName": "c"}})).json
        assert (changed["metadata"]["generation"], changed["status"]) == (2, patched["status"])

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("block", "invalid_fields"),
    [
        ({"cidr": "10.0.0.1/8", "except": ["10.1.0.1/16"]}, []),
        ({"cidr": "10.0.0.1/8"}, []),
        ({"cidr": "10.0.0.2/8", "except": ["10.1.0.1/16"]}, ["cidr"]),
        ({"cidr": "10.0.0.1/8", "except": ["10.1.0.1/16", "10.2.0.1/16"]}, ["except[1]"]),
        ({"cidr": "10.0.0.1/8", "except": ["nope"]}, ["except[0]"]),
    ],
    ids=str,
)
def test_changed_cidrs_of_network_policy_are_validated_and_unchanged_invalid_ones_are_kept(
    block: dict[str, Any], invalid_fields: list[str]
) -> None:
    stored = POLICY_RULES.create(policy({"cidr": "10.0.0.1/8", "except": ["10.1.0.1/16"]})["spec"])
    faults = POLICY_RULES.update(stored, policy(block)["spec"])[1]
    expected = [f"spec.egress[0].to[0].ipBlock.{field}" for field in invalid_fields]
    assert [fault.partition(": ")[0] for fault in faults] == expected


@pytest.mark.parametrize(
    ("collection", "value", "warnings"),
    [
        (
            INGRESSES,
            {
                "metadata": {"name": "a", "annotations": {"kubernetes.io/ingress.class": "c"}},
                "spec": {"defaultBackend": BACKEND},
            },
            ["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"],
        ),
        (
            POLICIES,
            policy({"cidr": "2001:0db8::/32"}),
            [
                'spec.egress[0].to[0].ipBlock.cidr: IPv6 CIDR value "2001:0db8::/32" should be in RFC 5952 canonical '
                'format ("2001:db8::/32")'
            ],
        ),
    ],
)
def test_warnings(collection: str, value: dict[str, Any], warnings: list[str]) -> None:
    async def work(cluster: Cluster) -> None:
        assert await cluster.collect_warnings(collection, value) == warnings

    run_in_cluster(work)


def test_table_cells() -> None:
    hosts = [{"host": f"h{number}.example.com"} for number in range(5)]

    async def work(cluster: Cluster) -> None:
        await cluster.make(INGRESSES, named_object(spec={"rules": hosts, "tls": [{}]}))
        entries = [{"hostname": "b.example.com"}, {"ip": "1.2.3.4"}]
        await cluster.patch(f"{INGRESSES}/a/status", {"status": {"loadBalancer": {"ingress": entries}}})
        shown = "h0.example.com,h1.example.com,h2.example.com + 2 more..."
        assert (await cluster.get_cells(INGRESSES))[0][:5] == ["a", "<none>", shown, "1.2.3.4,b.example.com", "80, 443"]
        parameters = {"apiGroup": "x.io", "kind": "K", "name": "n"}
        await cluster.make(CLASSES, named_object(spec={"controller": "e.com/c", "parameters": parameters}))
        assert (await cluster.get_cells(CLASSES))[0][:3] == ["a", "e.com/c", "K.x.io/n"]

    run_in_cluster(work)
