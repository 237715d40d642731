"""Each generator of `kubectl create` as a function of its options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sampan.kubectl.commands.create.binding import BindingSubjectOptions
from sampan.kubectl.commands.create.cluster_role import CreateClusterRoleOptions, cluster_role
from sampan.kubectl.commands.create.config_map import CreateConfigMapOptions, config_map
from sampan.kubectl.commands.create.deployment import CreateDeploymentOptions, container_name, deployment
from sampan.kubectl.commands.create.ingress import CreateIngressOptions, ingress
from sampan.kubectl.commands.create.job import CreateJobOptions, job, job_of_cron_job
from sampan.kubectl.commands.create.key_sources import SourceOptions
from sampan.kubectl.commands.create.pod_disruption_budget import CreatePodDisruptionBudgetOptions, pod_disruption_budget
from sampan.kubectl.commands.create.policy_rules import RuleOptions
from sampan.kubectl.commands.create.quota import CreateQuotaOptions, resource_quota
from sampan.kubectl.commands.create.role import CreateRoleOptions, role
from sampan.kubectl.commands.create.role_binding import CreateRoleBindingOptions, role_binding
from sampan.kubectl.commands.create.secret import (
    DockerRegistrySecretOptions,
    GenericSecretOptions,
    docker_registry_secret,
    generic_secret,
)
from sampan.kubectl.commands.create.service import parse_port_pair, service
from sampan.machinery.cli_errors import CliError

RESOURCES = {"pods": ("pods", ""), "rs": ("replicasets", "apps"), "roles": ("roles", "rbac.authorization.k8s.io")}


def resolve(name: str, group: str) -> tuple[str, str]:
    if name not in RESOURCES:
        raise CliError(f'the server doesn\'t have a resource type "{name}"')
    return RESOURCES[name]


def test_config_map_has_text_and_binary_data(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "raw").write_bytes(b"\xff")
    value = config_map(
        "a", "x", CreateConfigMapOptions(sources=SourceOptions(from_file=(str(tmp_path),), from_literal=("k=v=w",)))
    )
    assert value["data"] == {"text": "hello", "k": "v=w"}
    assert value["binaryData"] == {"raw": "/w=="}
    assert value["metadata"] == {"name": "a", "namespace": "x"}


def test_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "env"
    file.write_text("\ufeff# comment\nA=1\n  B=x=y\n\nC\n")
    monkeypatch.setenv("C", "from environment")
    assert config_map("a", "", CreateConfigMapOptions(sources=SourceOptions(from_env_file=(str(file),))))["data"] == {
        "A": "1",
        "B": "x=y",
        "C": "from environment",
    }


def test_append_hash_matches_kubectl() -> None:
    named = config_map("a", "", CreateConfigMapOptions(sources=SourceOptions(from_literal=("a=b<",)), append_hash=True))
    assert named["metadata"]["name"] == "a-44m9tt4dk7"
    assert (
        generic_secret("a", "", GenericSecretOptions(sources=SourceOptions(from_literal=("a=b",)), append_hash=True))[
            "metadata"
        ]["name"]
        == "a-648mt2ck52"
    )


def test_docker_registry_secret_has_the_fields_in_the_order_of_docker() -> None:
    data = docker_registry_secret("r", "", DockerRegistrySecretOptions(docker_username="u", docker_password="p"))[
        "data"
    ][".dockerconfigjson"]
    assert data == (
        "eyJhdXRocyI6eyJodHRwczovL2luZGV4LmRvY2tlci5pby92MS8iOnsidXNlcm5hbWUiOiJ1IiwicGFzc3dvcmQiOiJwIiwiYXV0aCI6ImRUcHci"
        "fX19"
    )


@pytest.mark.parametrize(
    ("pair", "ports"), [("80", (80, 80)), ("80:8080", (80, 8080)), ("80:http", (80, "http")), ("0", (0, 0))]
)
def test_port_pairs(pair: str, ports: tuple[int, int | str]) -> None:
    assert parse_port_pair(pair) == ports


def test_service_has_node_port_and_selector() -> None:
    value = service("a", type="NodePort", tcp=["80:8080"], node_port=30001)
    assert value["spec"] == {
        "ports": [{"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080, "nodePort": 30001}],
        "selector": {"app": "a"},
        "type": "NodePort",
    }


@pytest.mark.parametrize(
    ("image", "name"),
    [("nginx", "nginx"), ("x/y/nginx:1.2", "nginx"), ("r:5000/busybox@sha256:ab", "busybox")],
)
def test_container_is_named_after_its_image(image: str, name: str) -> None:
    assert container_name(image) == name


def test_container_name_replaces_characters_and_adds_a_suffix() -> None:
    assert container_name("my_app.v1").startswith("my-app-v1-")


def test_only_the_first_container_has_the_port() -> None:
    containers = deployment(
        "a",
        "",
        CreateDeploymentOptions(
            image=(
                "x",
                "y",
            ),
            port=80,
        ),
    )["spec"]["template"]["spec"]["containers"]
    assert [container.get("ports") for container in containers] == [[{"containerPort": 80}], None]


def test_job_from_a_cron_job_has_an_owner_reference() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {}}}
    value = job_of_cron_job("j", "", {"metadata": {"name": "c", "uid": "u"}, "spec": {"jobTemplate": template}})
    assert value["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert value["metadata"]["annotations"] == {"cronjob.kubernetes.io/instantiate": "manual"}
    assert value["spec"] == {"template": {}}
    assert (
        job("j", "", CreateJobOptions(image="x", words=("j", "date")))["spec"]["template"]["spec"]["restartPolicy"]
        == "Never"
    )


def test_rules_of_an_ingress_are_grouped_by_host_and_tls_by_secret() -> None:
    spec = ingress(
        "a",
        "",
        CreateIngressOptions(
            rule=(
                "a.b/x*=s:80,tls=t",
                "a.b/=s:http,tls=t",
                "c.d/=s:1,tls=t",
                "/=s:2,tls",
            )
        ),
    )["spec"]
    assert [(rule.get("host"), len(rule["http"]["paths"])) for rule in spec["rules"]] == [
        ("a.b", 2),
        ("c.d", 1),
        (None, 1),
    ]
    assert spec["rules"][0]["http"]["paths"][0]["pathType"] == "Prefix"
    assert spec["rules"][0]["http"]["paths"][1]["backend"]["service"]["port"] == {"name": "http"}
    assert spec["tls"] == [{"hosts": ["a.b", "c.d"], "secretName": "t"}]


def test_rules_of_a_role_are_grouped_by_api_group() -> None:
    rules = role(
        "a",
        "",
        CreateRoleOptions(
            rules=RuleOptions(
                verb=(
                    "get",
                    "get",
                ),
                resource=(
                    "rs",
                    "pods/log",
                    "pods",
                ),
            )
        ),
        resolve,
    )["rules"]
    assert rules == [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log", "pods"]},
        {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["replicasets"]},
    ]


def test_cluster_role_aggregates() -> None:
    value = cluster_role("a", CreateClusterRoleOptions(aggregation_rule=("x=y",)), resolve)
    assert value["aggregationRule"] == {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}


def test_role_binding_of_a_cluster_role() -> None:
    value = role_binding(
        "a",
        "",
        CreateRoleBindingOptions(
            subjects=BindingSubjectOptions(user=("u",), serviceaccount=("n:s",)), clusterrole="admin"
        ),
    )
    assert value["roleRef"]["kind"] == "ClusterRole"
    assert value["subjects"][1] == {"kind": "ServiceAccount", "name": "s", "namespace": "n"}


def test_quota_has_canonical_quantities() -> None:
    assert resource_quota("a", "", CreateQuotaOptions(hard="cpu=1000m,memory=1Gi"))["spec"] == {
        "hard": {"cpu": "1", "memory": "1Gi"}
    }


def test_budget_has_a_label_selector() -> None:
    spec = pod_disruption_budget(
        "a", "", CreatePodDisruptionBudgetOptions(selector="a=b,c in (y,x),!d", min_available="50%")
    )["spec"]
    assert spec == {
        "minAvailable": "50%",
        "selector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["x", "y"]},
                {"key": "d", "operator": "DoesNotExist"},
            ],
        },
    }


@pytest.mark.parametrize(
    ("generate", "message"),
    [
        (
            lambda: config_map("a", "", CreateConfigMapOptions(sources=SourceOptions(from_literal=("=b",)))),
            "invalid literal source =b, expected key=value",
        ),
        (
            lambda: config_map("a", "", CreateConfigMapOptions(sources=SourceOptions(from_file=("/no/such",)))),
            "error reading /no/such: no such file or directory",
        ),
        (
            lambda: config_map("a", "", CreateConfigMapOptions(sources=SourceOptions(from_file=("a=b=c",)))),
            "key names or file paths cannot contain '='",
        ),
        (
            lambda: config_map(
                "a",
                "",
                CreateConfigMapOptions(
                    sources=SourceOptions(
                        from_literal=(
                            "x=1",
                            "x=2",
                        )
                    )
                ),
            ),
            'cannot add key "x", another key by that name already exists in Data for ConfigMap "a"',
        ),
        (
            lambda: config_map(
                "a", "", CreateConfigMapOptions(sources=SourceOptions(from_env_file=("x",), from_literal=("a=b",)))
            ),
            "from-env-file cannot be combined with from-file or from-literal",
        ),
        (
            lambda: generic_secret(
                "a",
                "",
                GenericSecretOptions(
                    sources=SourceOptions(
                        from_literal=(
                            "x=1",
                            "x=2",
                        )
                    )
                ),
            ),
            "cannot add key x, another key by that name already exists",
        ),
        (lambda: service("a", type="ClusterIP"), "at least one tcp port specifier must be provided"),
        (
            lambda: service("a", type="ClusterIP", tcp=["x"]),
            'strconv.ParseUint: parsing "x": invalid syntax',
        ),
        (lambda: service("a", type="ExternalName", external_name="_"), "invalid service external name _"),
        (
            lambda: deployment(
                "a",
                "",
                CreateDeploymentOptions(
                    image=(
                        "x",
                        "y",
                    ),
                    words=("a", "z"),
                ),
            ),
            "cannot specify multiple --image options and command",
        ),
        (
            lambda: ingress("a", "", CreateIngressOptions(rule=("x",))),
            "rule x is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]",
        ),
        (
            lambda: role("a", "", CreateRoleOptions(rules=RuleOptions(verb=(), resource=("pods",))), resolve),
            "at least one verb must be specified",
        ),
        (
            lambda: role("a", "", CreateRoleOptions(rules=RuleOptions(verb=("bind",), resource=("pods",))), resolve),
            "can not perform 'bind' on 'pods' in group ''",
        ),
        (
            lambda: cluster_role(
                "a", CreateClusterRoleOptions(rules=RuleOptions(verb=("list",)), non_resource_url=("/x",)), resolve
            ),
            "invalid verb: 'list' for nonResourceURL",
        ),
        (
            lambda: role_binding("a", "", CreateRoleBindingOptions(role="x", clusterrole="y")),
            "exactly one of clusterrole or role must be specified",
        ),
        (
            lambda: role_binding(
                "a", "", CreateRoleBindingOptions(subjects=BindingSubjectOptions(serviceaccount=("y",)), role="x")
            ),
            "serviceaccount must be <namespace>:<name>",
        ),
        (
            lambda: resource_quota("a", "", CreateQuotaOptions(hard="cpu")),
            "Invalid argument syntax cpu, expected <resource>=<value>",
        ),
        (
            lambda: pod_disruption_budget("a", "", CreatePodDisruptionBudgetOptions(selector="a=b", min_available="x")),
            "invalid format specified for min-available",
        ),
    ],
)
def test_invalid_options_are_rejected(generate: Callable[[], dict[str, Any]], message: str) -> None:
    with pytest.raises(CliError) as error:
        generate()
    assert error.value.message == message
