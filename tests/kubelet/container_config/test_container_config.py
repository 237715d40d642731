"""The pure functions of container configuration: variables, downward API, DNS, resources, security."""

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api import limits
from sampan.api.codec import json
from sampan.api.types.core_v1 import ConfigMap, HostAlias, ResourceFieldSelector, Secret, Service
from sampan.kubelet.container_config import security
from sampan.kubelet.container_config.downward import DownwardApiContext, FieldUnknown, field_value, resource_value
from sampan.kubelet.container_config.network_files import (
    DnsConfig,
    HostName,
    host_name,
    hosts_file,
    kernel_name,
    node_hosts_file,
    pod_dns,
    read_resolv_conf,
)
from sampan.kubelet.container_config.resources import container_resources
from sampan.kubelet.container_config.variables import (
    ContainerConfigError,
    VariableSources,
    container_variables,
    expand,
    expand_all,
    service_variables,
)
from sampan.runtimes.config import ResolverConfig, resolv_conf
from sampan.runtimes.contract import ImageInfo
from tests.input_cost import is_cpu_time_within
from tests.kubelet.container_config.builders import container, pod

KNOWN = {"A": "1", "B": "$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)-$(A)", "1-1"),
        ("$(B)", "$(A)"),
        ("$(EMPTY)x", "x"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$A $", "$A $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("a$$b", "a$b"),
    ],
)
def test_variable_expansion(text: str, expanded: str) -> None:
    assert expand(text, KNOWN) == expanded


@given(st.text(alphabet="$()Ab", max_size=20))
def test_variable_expansion_never_fails(text: str) -> None:
    assert isinstance(expand(text, KNOWN), str)


def test_expansion_of_unterminated_references_takes_linear_time() -> None:
    start = time.thread_time()
    assert expand("$(" * 200_000, KNOWN) == "$(" * 200_000
    assert is_cpu_time_within(time.thread_time() - start, 2)


CONTEXT = DownwardApiContext(
    node_name="n", host_ips=["10.0.0.1"], pod_ips=["10.1.0.2", "fd::2"], allocatable={"cpu": "4", "memory": "1Gi"}
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels", 'a="1"\nb="two \\"2\\""'),
        ("metadata.labels['b']", 'two "2"'),
        ("metadata.annotations['x/y']", "z"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "10.0.0.1"),
        ("status.podIP", "10.1.0.2"),
        ("status.podIPs", "10.1.0.2,fd::2"),
    ],
)
def test_downward_api_fields(path: str, value: str) -> None:
    manifest = pod(
        {"nodeName": "n", "serviceAccountName": "sa"}, labels={"b": 'two "2"', "a": "1"}, annotations={"x/y": "z"}
    )
    assert field_value(manifest, path, CONTEXT) == value


@pytest.mark.parametrize("path", ["spec.containers", "status.phase", "metadata.name['x']", ""])
def test_unknown_downward_api_fields_are_rejected(path: str) -> None:
    with pytest.raises(FieldUnknown):
        field_value(pod(), path, CONTEXT)


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1250"),
        ("requests.cpu", "1", "1"),
        ("requests.memory", "1Mi", "64"),
        ("requests.memory", "1", "67108864"),
        ("limits.memory", "1Mi", "1024"),
        ("limits.hugepages-2Mi", "1Mi", "4"),
        ("requests.ephemeral-storage", "1", "0"),
    ],
)
def test_downward_api_resources(resource: str, divisor: str, value: str) -> None:
    resources = {
        "limits": {"cpu": "1250m", "hugepages-2Mi": "4Mi"},
        "requests": {"cpu": "250m", "memory": "64Mi"},
    }
    selector = ResourceFieldSelector(resource=resource, divisor=divisor)
    assert resource_value(container(resources=resources), selector, CONTEXT.allocatable or {}) == value


def service(name: str, namespace: str = "ns", address: str = "10.96.0.7", **spec: Any) -> Service:
    ports = spec.pop("ports", [{"port": 80}])
    value = {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": address, "ports": ports, **spec}}
    return json.from_value(value, Service)


def test_service_variables() -> None:
    ports = [{"name": "web-in", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    services = [
        service("my-web", ports=ports),
        service("kubernetes", "default", "10.96.0.1", ports=[{"name": "https", "port": 443}]),
        service("headless", address="None"),
        service("elsewhere", "other"),
    ]
    variables = service_variables(services, "ns", has_links=True)
    assert variables["MY_WEB_SERVICE_HOST"] == "10.96.0.7"
    assert variables["MY_WEB_SERVICE_PORT"] == variables["MY_WEB_SERVICE_PORT_WEB_IN"] == "80"
    assert variables["MY_WEB_SERVICE_PORT_DNS"] == "53"
    assert variables["MY_WEB_PORT"] == variables["MY_WEB_PORT_80_TCP"] == "tcp://10.96.0.7:80"
    assert variables["MY_WEB_PORT_53_UDP_PROTO"] == "udp"
    assert variables["MY_WEB_PORT_53_UDP_ADDR"] == "10.96.0.7"
    assert not any(name.startswith(("HEADLESS", "ELSEWHERE")) for name in variables)
    variables_without_links = service_variables(services, "ns", has_links=False)
    assert {name.split("_")[0] for name in variables_without_links} == {"KUBERNETES"}
    ipv6_variables = service_variables([service("six", address="fd::1")], "ns", has_links=True)
    assert ipv6_variables["SIX_PORT"] == "tcp://[fd::1]:80"


def sources(**overrides: Any) -> VariableSources:
    maps = {"m": json.from_value({"data": {"k": "v", "only": "map"}}, ConfigMap)}
    secrets = {"s": json.from_value({"data": {"k": "c2VjcmV0"}}, Secret)}
    return VariableSources(
        config_map=maps.get, secret=secrets.get, file_key=lambda ref: None, services={"SVC": "10.0.0.9", "k": "no"}
    )


def test_environment_variables_of_a_container() -> None:
    manifest = container(
        envFrom=[{"configMapRef": {"name": "m"}}, {"prefix": "S_", "secretRef": {"name": "s"}}],
        env=[
            {"name": "k", "value": "own"},
            {"name": "MADE", "value": "$(k)-$(S_k)-$(SVC)-$(LATER)"},
            {"name": "LATER", "value": "x"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
            {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k", "optional": True}}},
            {"name": "EMPTY", "value": ""},
        ],
    )
    variables = container_variables(pod(), manifest, sources(), CONTEXT)
    assert variables == {
        **{"k": "own", "only": "map", "S_k": "secret", "MADE": "own-secret-10.0.0.9-$(LATER)", "LATER": "x"},
        **{"POD": "p", "FROM_MAP": "v", "FROM_SECRET": "secret", "EMPTY": "", "SVC": "10.0.0.9"},
    }
    assert list(variables)[-1] == "SVC"


def test_exponentially_growing_variables_are_rejected() -> None:
    doubling = [{"name": "V0", "value": "x" * 1000}]
    doubling += [{"name": f"V{number}", "value": f"$(V{number - 1})" * 2} for number in range(1, 60)]
    with pytest.raises(ContainerConfigError, match="environment variables exceed"):
        container_variables(pod(), container(env=doubling), sources(), CONTEXT)


def test_expansion_of_arguments_is_bounded() -> None:
    variables = {"V": "x" * 1_000_000}
    expanded = [*expand_all(["$(V)"] * 1000, variables), expand("$(V)" * 1000, variables)]
    assert sum(map(len, expanded)) < 3 * limits.EXPANDED_CHARACTERS


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"envFrom": [{"configMapRef": {"name": "no"}}]}, 'configmap "no" not found'),
        ({"envFrom": [{"secretRef": {"name": "no"}}]}, 'secret "no" not found'),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "no"}}}]},
            "couldn't find key no in ConfigMap ns/m",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no"}}}]},
            "couldn't find key no in Secret ns/s",
        ),
        (
            {
                "env": [
                    {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "x"}}}
                ]
            },
            "container x not found",
        ),
    ],
)
def test_missing_sources_of_variables_are_reported(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ContainerConfigError, match=text):
        container_variables(pod(), container(**fields), sources(), CONTEXT)


def test_host_names() -> None:
    assert host_name(pod(), "cluster.local") == HostName("p")
    named = pod({"hostname": "h", "subdomain": "sub"})
    assert host_name(named, "cluster.local") == HostName("h", "sub.ns.svc.cluster.local")
    assert kernel_name(named, host_name(named, "cluster.local")) == "h"
    full = pod({"hostname": "h", "subdomain": "sub", "setHostnameAsFQDN": True})
    assert kernel_name(full, host_name(full, "cluster.local")) == "h.sub.ns.svc.cluster.local"
    assert host_name(pod(name="a" * 62 + "-b"), "x").name == "a" * 62
    assert host_name(pod({"hostnameOverride": "other.example", "subdomain": "sub"}), "x") == HostName("other.example")
    long = pod({"hostname": "h" * 60, "subdomain": "sub", "setHostnameAsFQDN": True})
    with pytest.raises(ContainerConfigError, match="is too long"):
        kernel_name(long, host_name(long, "cluster.local"))


def test_hosts_files() -> None:
    aliases = [HostAlias(ip="1.2.3.4", hostnames=["a", "b"])]
    text = hosts_file(["10.1.0.2", "fd::2"], HostName("h", "sub.ns.svc.cluster.local"), aliases)
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert "10.1.0.2\th.sub.ns.svc.cluster.local\th\nfd::2\th.sub.ns.svc.cluster.local\th\n" in text
    assert text.endswith("\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n")
    assert node_hosts_file("127.0.0.1 me\n", []) == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 me\n"


NODE = ResolverConfig(servers=["192.0.2.53"], searches=["example.com"], options=["edns0"])
CLUSTER = DnsConfig(node=NODE, cluster_servers=["10.96.0.10"])


@pytest.mark.parametrize(
    ("spec", "config", "expected"),
    [
        (
            {},
            CLUSTER,
            "search ns.svc.cluster.local svc.cluster.local cluster.local example.com\n"
            "nameserver 10.96.0.10\noptions ndots:5\n",
        ),
        ({"dnsPolicy": "Default"}, CLUSTER, "search example.com\nnameserver 192.0.2.53\noptions edns0\n"),
        ({"hostNetwork": True}, CLUSTER, "search example.com\nnameserver 192.0.2.53\noptions edns0\n"),
        (
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
            CLUSTER,
            "search ns.svc.cluster.local svc.cluster.local cluster.local example.com\n"
            "nameserver 10.96.0.10\noptions ndots:5\n",
        ),
        ({"hostNetwork": True}, DnsConfig(local_servers=["127.0.0.1"]), "search .\nnameserver 127.0.0.1\n"),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}, CLUSTER, "nameserver 1.1.1.1\n"),
        (
            {
                "dnsConfig": {
                    "nameservers": ["1.1.1.1"],
                    "searches": ["x.test"],
                    "options": [{"name": "ndots", "value": "2"}, {"name": "debug"}],
                }
            },
            CLUSTER,
            "search ns.svc.cluster.local svc.cluster.local cluster.local example.com x.test\n"
            "nameserver 10.96.0.10\nnameserver 1.1.1.1\noptions ndots:2 debug\n",
        ),
    ],
)
def test_pod_dns_by_policy(spec: dict[str, Any], config: DnsConfig, expected: str) -> None:
    dns_config, warnings = pod_dns(pod(spec), config)
    assert resolv_conf(dns_config) == expected
    assert warnings == []
    assert read_resolv_conf(expected) == ResolverConfig(
        servers=list(dns_config.servers), searches=list(dns_config.searches), options=list(dns_config.options)
    )


def test_dns_fallbacks_and_limits_are_reported_as_warnings() -> None:
    dns_config, warnings = pod_dns(pod(), DnsConfig(node=NODE))
    assert dns_config == NODE
    assert "does not have ClusterDNS IP configured" in warnings[0]
    servers = [f"10.0.0.{at}" for at in range(5)]
    dns_config, warnings = pod_dns(pod({"dnsPolicy": "None", "dnsConfig": {"nameservers": servers}}), CLUSTER)
    assert list(dns_config.servers) == servers[:3]
    assert "Nameserver limits were exceeded" in warnings[0]
    searches = [f"{'x' * 60}.s{at}" for at in range(40)]
    spec = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": searches}}
    dns_config, warnings = pod_dns(pod(spec), CLUSTER)
    assert len(" ".join(dns_config.searches)) <= 2048
    assert "Search Line limits were exceeded" in warnings[0]


def test_resolv_conf_is_parsed() -> None:
    text = "# by hand\nsearch old\nnameserver 1.1.1.1 # first\nsearch a. b\noptions x y\n;no\nnameserver\nsortlist z\n"
    assert read_resolv_conf(text) == ResolverConfig(servers=["1.1.1.1"], searches=["a", "b"], options=["x", "y"])


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, (2, 0, 0, 1000)),
        ({"requests": {"cpu": "500m", "memory": "256Mi"}}, (512, 0, 0, 750)),
        ({"limits": {"cpu": "2", "memory": "1Gi"}}, (2048, 200_000, 1 << 30, -997)),
        ({"requests": {"cpu": "1m"}, "limits": {"cpu": "5m"}}, (2, 1000, 0, 999)),
        ({"requests": {"memory": "1Gi"}}, (2, 0, 0, 3)),
    ],
)
def test_resources_of_a_container(resources: dict[str, Any], expected: tuple[int, int, int, int]) -> None:
    if "limits" in resources:
        resources.setdefault("requests", dict(resources["limits"]))  # as the API server does
    manifest = pod({"containers": [{"name": "c", "image": "i", "resources": resources}]})
    resources_ = container_resources(manifest, (manifest.spec.containers or [])[0], node_memory=1 << 30)
    assert (
        resources_.cpu_shares,
        resources_.cpu_quota,
        resources_.memory_bytes,
        resources_.oom_score_adjust,
    ) == expected


def security_of(spec: dict[str, Any] | None = None, image_user: str = "", **own: Any) -> Any:
    manifest = container(securityContext=own)
    image = ImageInfo(id="x", user=image_user)
    return security.container_security(pod(spec), manifest, image, profiles=Path("/p"), has_seccomp=False)


def test_container_security_context() -> None:
    plain = security_of()
    assert (plain.user, plain.is_privileged, plain.seccomp.type) == (None, False, "Unconfined")
    assert "/proc/kcore" in plain.masked_paths
    pod_context = {"runAsUser": 7, "runAsGroup": 8, "fsGroup": 9, "supplementalGroups": [10, 9]}
    security = security_of({"securityContext": pod_context}, runAsUser=5, allowPrivilegeEscalation=False)
    assert (security.user, security.group, security.supplemental_groups) == (5, 8, (9, 10))
    assert security.may_not_gain_privileges
    local = security_of(seccompProfile={"type": "Localhost", "localhostProfile": "a/b.json"})
    assert local.seccomp.local == "/p/a/b.json"
    assert security_of(procMount="Unmasked").masked_paths == ()


@pytest.mark.parametrize(
    ("own", "image_user", "text"),
    [
        ({"runAsUser": 0}, "", "container's runAsUser breaks non-root policy"),
        ({}, "", "container has runAsNonRoot and image will run as root"),
        ({}, "0:0", "image will run as root"),
        ({}, "00", "image will run as root"),
        ({}, "+0", "image will run as root"),
        ({}, "-0:5", "image will run as root"),
        ({}, "root", r"image has non-numeric user \(root\), cannot verify user is non-root"),
        ({}, "\u0660", r"image has non-numeric user \(\u0660\), cannot verify user is non-root"),
        ({}, "4294967296", "id 4294967296 is out of range"),
        ({}, "-1", "id -1 is out of range"),
        ({}, "www", r"image has non-numeric user \(www\), cannot verify user is non-root"),
        ({"runAsUser": 3}, "", ""),
        ({}, "1000:5", ""),
    ],
)
def test_run_as_non_root_is_verified(own: dict[str, Any], image_user: str, text: str) -> None:
    if not text:
        security_of(image_user=image_user, runAsNonRoot=True, **own)
        return
    with pytest.raises(ContainerConfigError, match=text):
        security_of(image_user=image_user, runAsNonRoot=True, **own)


def test_run_as_group_alone_keeps_the_user_of_the_image() -> None:
    """Container engines take user and group as one string, and use root if the user is missing."""
    assert security_of(image_user="1000:5", runAsGroup=7, runAsNonRoot=True).username == "1000"
    assert security_of(image_user="1000:5").username == ""


@pytest.mark.parametrize("path", ["/etc/shadow", "../../pki/ca.key", "a/../../b"])
def test_local_seccomp_profile_outside_its_directory_is_rejected(path: str) -> None:
    with pytest.raises(ContainerConfigError, match="must be a relative path"):
        security_of(seccompProfile={"type": "Localhost", "localhostProfile": path})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("pod", "pod", "container")),
        ({"hostNetwork": True, "hostIPC": True, "hostPID": True}, ("node", "node", "node")),
        ({"shareProcessNamespace": True}, ("pod", "pod", "pod")),
    ],
)
def test_namespaces(spec: dict[str, Any], expected: tuple[str, str, str]) -> None:
    namespaces = security.namespaces(pod(spec))
    assert (namespaces.network, namespaces.ipc, namespaces.pid) == expected
    assert security.namespaces(pod(spec), "id").pid == "target"
