"""Conformance tests of sig-network for API objects. The first paragraph of a docstring is the official test name."""

from tests.e2e.conformance.api import STRATEGIC, Api, Value
from tests.e2e.conformance.operations import check_api_operations, check_discovery, check_subresource

GROUP = "networking.k8s.io"


def backend(name: str) -> Value:
    return {"service": {"name": name, "port": {"number": 8080}}}


def test_ingresses(api: Api) -> None:
    """[sig-network] Ingress API should support creating Ingress API operations [Conformance]"""
    path = {"path": "/", "pathType": "ImplementationSpecific", "backend": backend("test-backend")}
    rule = {"host": "foo.bar.com", "http": {"paths": [path]}}
    spec = {"defaultBackend": backend("default-backend"), "rules": [rule]}
    ingresses = check_api_operations(api, GROUP, "ingresses", subresources=("status",), spec=spec)
    ingresses.create("parts", {"everywhere": api.namespace}, spec=spec)
    assert ingresses.names(f"everywhere={api.namespace}", path=ingresses.all_namespaces_path) == ["parts"]
    obj = check_subresource(
        ingresses,
        "parts",
        "status",
        {"loadBalancer": {"ingress": [{"ip": "169.1.1.1"}]}},
        lambda status: status.update(loadBalancer={"ingress": [{"ip": "169.1.1.2"}]}),
    )
    assert obj["status"]["loadBalancer"]["ingress"] == [{"ip": "169.1.1.2"}]
    assert obj["spec"] == spec


def test_ingress_classes(api: Api) -> None:
    """[sig-network] IngressClass API should support creating IngressClass API operations [Conformance]"""
    spec = {"controller": "example.com/controller"}
    classes = check_api_operations(api, GROUP, "ingressclasses", spec=spec)
    assert classes.create(f"{api.namespace}-more", spec=spec)["spec"] == spec
    classes.delete(f"{api.namespace}-more")


def test_ip_addresses(api: Api) -> None:
    """[sig-network] ServiceCIDR and IPAddress API should support IPAddress API operations [Conformance]"""
    parent = {"group": "mygroup", "resource": "myresources", "namespace": "foo", "name": "bar"}
    names = ("255.255.255.255", "fe80::42:1dff:fe84:f9e2", "203.0.113.7")
    check_api_operations(api, GROUP, "ipaddresses", names=names, spec={"parentRef": parent})


def is_ready(obj: Value) -> bool:
    conditions = obj.get("status", {}).get("conditions", [])
    return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)


def test_service_cidrs(api: Api) -> None:
    """[sig-network] ServiceCIDR and IPAddress API should support ServiceCIDR API operations [Conformance]"""
    check_discovery(api, GROUP, "servicecidrs", ("status",))
    ranges, name = api.for_resource("servicecidrs", f"{GROUP}/v1"), f"{api.namespace}-range"
    default = ranges.get("kubernetes")
    status = ranges.get("kubernetes", "status")
    assert (status["kind"], status["metadata"]["uid"]) == ("ServiceCIDR", default["metadata"]["uid"])
    with ranges.watch(fieldSelector=f"metadata.name={name}") as events:
        range_ = ranges.create(name, {"e2e": api.namespace}, spec={"cidrs": ["203.0.113.128/28"]})
        assert ranges.names() == sorted(["kubernetes", name])
        assert events.wait_for("ADDED")["metadata"]["uid"] == range_["metadata"]["uid"]
        events.wait_for("MODIFIED", is_ready)
        ranges.patch(name, {"metadata": {"annotations": {"patched": "true"}}})
        ranges.change(name, lambda obj: obj["metadata"]["annotations"].update(updated="true"))
        annotations = {"patched": "true", "updated": "true"}
        events.wait_for("MODIFIED", lambda obj: obj["metadata"].get("annotations") == annotations)
        condition = {"type": "StatusPatched", "status": "False", "reason": "e2e", "message": "m"}
        condition["lastTransitionTime"] = "2024-01-01T00:00:00Z"
        patched = ranges.patch(name, {"status": {"conditions": [condition]}}, "status")
        assert patched["status"]["conditions"] == [condition]
        ranges.delete_all(f"e2e={api.namespace}")
        events.wait_for("DELETED")
    assert ranges.names() == ["kubernetes"]


def test_kubernetes_service(api: Api) -> None:
    """[sig-network] API Server should provide secure master service [Conformance]"""
    (port,) = api.get("/api/v1/namespaces/default/services/kubernetes")["spec"]["ports"]
    assert (port["name"], port["port"], port["protocol"]) == ("https", 443, "TCP")
    (subset,) = api.get("/api/v1/namespaces/default/endpoints/kubernetes")["subsets"]
    assert subset["addresses"]


def test_list_services_of_all_namespaces(api: Api) -> None:
    """[sig-network] Services should find a service from listing all namespaces [Conformance]"""
    names = [
        (names["metadata"]["namespace"], names["metadata"]["name"]) for names in api.get("/api/v1/services")["items"]
    ]
    assert ("default", "kubernetes") in names


def test_service_status(api: Api) -> None:
    """[sig-network] Services should complete a service status lifecycle [Conformance]"""
    services = api.for_resource("services")
    ports = [{"name": "http", "port": 80, "targetPort": 80}]
    spec = {"type": "LoadBalancer", "loadBalancerClass": "example.com/internal-vip", "ports": ports}
    with services.watch(labelSelector="test-service-static=true") as events:
        services.create("s", {"test-service-static": "true"}, spec=spec)
        events.wait_for("ADDED", lambda obj: obj["metadata"]["name"] == "s")
        condition = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set from e2e test"}
        condition["lastTransitionTime"] = "2024-01-01T00:00:00Z"
        obj = check_subresource(
            services,
            "s",
            "status",
            {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}},
            lambda status: status.update(conditions=[condition]),
        )
        assert obj["status"]["conditions"] == [condition]
        assert obj["status"]["loadBalancer"]["ingress"][0]["ip"] == "203.0.113.1"
        events.wait_for("MODIFIED", lambda obj: obj["metadata"].get("annotations", {}).get("patchedstatus") == "true")
        events.wait_for("MODIFIED", lambda obj: obj["status"].get("conditions") == [condition])
        services.patch("s", {"metadata": {"labels": {"test-service": "patched"}}}, content=STRATEGIC)
        events.wait_for("MODIFIED", lambda obj: obj["metadata"]["labels"].get("test-service") == "patched")
        services.delete("s")
        assert events.wait_for("DELETED")["metadata"]["name"] == "s"
