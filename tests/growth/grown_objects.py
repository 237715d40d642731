"""Objects of every kind in which one list or map is grown to a wanted number of items.

The schema tree says where lists and maps are; a good object of the kind and a table of values by field name make the
rest of the object valid where that is possible, so that a request gets past decoding and into validation, warnings,
admission and field ownership.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sampan.api.schema.tree import Schema, copy_value

ITEM = "[]"
VALUE = "{}"
MODES = ("distinct", "equal", "nested", "invalid")
"""How the items of a grown list differ: each valid and different, all the same, paths and names that are prefixes of
each other, or none of them valid."""
PREFIX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class GrowingField:
    """A list or map of a kind, or (`is_object`) all lists and maps of one object."""

    path: tuple[str, ...]
    owner: str
    """The definition that declares the field, with the field's name: one of several places of the same definition is
    enough for the fast form."""
    schema: Schema
    is_object: bool = False

    def __str__(self) -> str:
        return ".".join(self.path).replace("." + ITEM, ITEM).replace("." + VALUE, VALUE) + (".*" * self.is_object)


def growing_fields(schema: Schema) -> Iterator[GrowingField]:
    """Yield every list and map of a kind at every depth, and every object that has more than one of them."""
    yield from _fields(schema, (), schema.name, (schema.name,))


def _fields(schema: Schema, path: tuple[str, ...], owner: str, above: tuple[str, ...]) -> Iterator[GrowingField]:
    if is_growing(schema):
        yield GrowingField(path, owner, schema)
    for part, below in ((ITEM, schema.items), (VALUE, schema.additional)):
        if below is not None and below.name not in above:
            yield from _fields(below, (*path, part), f"{owner}{part}", _add_schema_name(above, below))
    if schema.properties:
        if sum(is_growing(below) for below in schema.properties.values()) > 1:
            yield GrowingField(path, f"{schema.name}.*", schema, is_object=True)
        for name, below in schema.properties.items():
            if not below.name or below.name not in above:
                yield from _fields(below, (*path, name), f"{schema.name}.{name}", _add_schema_name(above, below))


def _add_schema_name(above: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    return (*above, schema.name) if schema.name else above


def is_growing(schema: Schema) -> bool:
    return schema.items is not None or schema.additional is not None


def grow_object(good: dict[str, Any], schema: Schema, field: GrowingField, count: int, mode: str) -> dict[str, Any]:
    """Return the valid object with `count` items in the field."""
    value: dict[str, Any] = copy_value(good)
    node, at = _parent(value, schema, field.path)
    if field.is_object:
        for name, below in at.properties.items():
            if is_growing(below):
                node[name] = _collection(below, name, count, mode)
    else:
        key: Any = 0 if field.path[-1] == ITEM else "key" if field.path[-1] == VALUE else field.path[-1]
        node[key] = _collection(field.schema, field.path[-1], count, mode)
    return value


def _parent(value: dict[str, Any], schema: Schema, path: tuple[str, ...]) -> tuple[Any, Schema]:
    """The container of the field, made where the object does not have it, and its schema; for an object the object
    itself."""
    node: Any = value
    nodes = [node]
    schemas = [schema]
    name = ""
    for part in path:
        if part == ITEM:
            below = schema.items
            if not node:
                node.append(sample(below, name, 0))
            key: Any = 0
        elif part == VALUE:
            below = schema.additional
            key = next(iter(node), "key")
        else:
            below, key, name = schema.properties[part], part, part
        assert below is not None
        if isinstance(node, dict) and not isinstance(node.get(key), dict | list):
            container = sample(below, name, 0)
            node[key] = container if isinstance(container, dict | list) else [] if below.items is not None else {}
        if isinstance(node, dict) and part not in (ITEM, VALUE):
            _drop_alternatives(node, schema, part)
        node, schema = node[key], below
        nodes.append(node)
        schemas.append(schema)
    is_object = bool(schema.properties)
    return (nodes[-1], schemas[-1]) if is_object else (nodes[-2], schemas[-2])


_UNIONS = {
    "Volume": ("name",),
    "VolumeProjection": (),
    "PersistentVolumeSpec": ("capacity", "accessModes", "mountOptions", "nodeAffinity"),
    "NetworkPolicyPeer": (),
    "IngressBackend": (),
    "LifecycleHandler": (),
    "Probe": (),
    "EnvVarSource": (),
    "EnvFromSource": ("prefix",),
    "DeviceRequest": ("name",),
    "ResourceClaimSpec": (),
}


def _drop_alternatives(node: dict[str, Any], schema: Schema, kept: str) -> None:
    """Remove all members of a union except the one on the path to the field."""
    shared = _UNIONS.get(schema.name.rpartition(".")[2])
    if shared is None or kept in shared:
        return
    for other in [name for name in node if name != kept and name not in shared]:
        if isinstance(node[other], dict | list):
            del node[other]


def _collection(schema: Schema, name: str, count: int, mode: str) -> Any:
    below = schema.items if schema.items is not None else schema.additional
    assert below is not None
    make = sampler(below, name)
    if mode == "equal":
        items = [make(0)] * count
    elif mode == "distinct":
        items = [make(number) for number in range(count)]
    else:
        items = [_change_value(make(number), number, mode) for number in range(count)]
    if schema.items is not None:
        return items
    return {_key(name, number, mode): item for number, item in enumerate(items)}


def _key(name: str, number: int, mode: str) -> str:
    if mode == "invalid":
        return f"!bad key {number}"
    if mode == "nested":
        return f"{nested_name(number)}{number}"
    return _KEYS[name](number) if name in _KEYS else f"key{number}"


_KEYS: dict[str, Callable[[int], str]] = {
    "limits": lambda number: f"example.com/r{number}",
    "requests": lambda number: f"example.com/r{number}",
    "hard": lambda number: f"requests.example.com/r{number}",
    "capacity": lambda number: f"example.com/r{number}",
    **dict.fromkeys(
        ("allocatable", "max", "min", "default", "defaultRequest", "maxLimitRequestRatio", "podFixed", "overhead"),
        lambda number: f"example.com/r{number}",
    ),
}


def _change_value(value: Any, number: int, mode: str) -> Any:
    if isinstance(value, dict):
        return {key: _change_value(part, number, mode) for key, part in value.items()}
    if isinstance(value, list):
        return [_change_value(part, number, mode) for part in value]
    if mode == "nested":
        return nested_name(number) if isinstance(value, str) and str(number) in value else value
    return value if isinstance(value, bool) else -number - 1 if isinstance(value, int) else f"!bad {number}"


def nested_name(number: int) -> str:
    """Return a name; in each group of 40 names, each is a prefix of the next, as a path and as a name."""
    group, depth = divmod(number, PREFIX_DEPTH)
    return f"d{group}" + "/a" * depth


# -- long strings -----------------------------------------------------------------------------------------------------

SHAPES = ("a", "1", "0", "a.", "/a", "-", "$(", ":", ",a", "a=", " ", "\n", "%", "[", "é", "1h", "*/")
"""Texts that long strings repeat: parts of names, numbers, paths, lists, expressions and escapes."""


def string_fields(schema: Schema) -> Iterator[GrowingField]:
    """Yield every field that is a string in JSON, at every depth."""
    yield from _strings(schema, (), schema.name, (schema.name,))


def _strings(schema: Schema, path: tuple[str, ...], owner: str, above: tuple[str, ...]) -> Iterator[GrowingField]:
    if schema.type == "string" or schema.format in ("quantity", "int-or-string"):
        yield GrowingField(path, owner, schema)
    for part, below in ((ITEM, schema.items), (VALUE, schema.additional)):
        if below is not None and below.name not in above:
            yield from _strings(below, (*path, part), f"{owner}{part}", _add_schema_name(above, below))
    for name, below in schema.properties.items():
        if not below.name or below.name not in above:
            yield from _strings(below, (*path, name), f"{schema.name}.{name}", _add_schema_name(above, below))


def with_string(good: dict[str, Any], schema: Schema, field: GrowingField, text: str) -> dict[str, Any]:
    """Return the valid object with this text in the field."""
    value: dict[str, Any] = copy_value(good)
    *above, last = field.path
    node = _container(value, schema, tuple(above))
    if isinstance(node, list):
        node[:1] = [text]
    else:
        node["key" if last == VALUE else last] = text
    return value


def _container(value: dict[str, Any], schema: Schema, path: tuple[str, ...]) -> Any:
    node: Any = value
    name = ""
    key: Any
    for part in path:
        if part == ITEM:
            below, key = schema.items, 0
            if not node:
                node.append(sample(below, name, 0))
        elif part == VALUE:
            below, key = schema.additional, next(iter(node), "key")
        else:
            below, key, name = schema.properties[part], part, part
            _drop_alternatives(node, schema, part)
        assert below is not None
        if isinstance(node, dict) and not isinstance(node.get(key), dict | list):
            container = sample(below, name, 0)
            node[key] = container if isinstance(container, dict | list) else [] if below.items is not None else {}
        node, schema = node[key], below
    return node


# -- values of single fields -----------------------------------------------------------------------------------------


Sampler = Callable[[int], Any]
"""Makes a small value for a field, which depends on a number."""


def sample(schema: Schema | None, name: str, number: int) -> Any:
    return sampler(schema, name)(number)


def sampler(schema: Schema | None, name: str) -> Sampler:
    """Return a function that makes small values for the field of that name."""
    if schema is None or schema.preserve_unknown:
        return lambda number: {"a": number}
    definition = schema.name.rpartition(".")[2]
    if definition in _OBJECTS:
        return _OBJECTS[definition]
    if schema.properties:
        properties = schema.properties
        required = [(key, sampler(properties[key], key)) for key in schema.required if key in properties]
        return lambda number: {key: make(number) for key, make in required}
    if schema.items is not None:
        make_item = sampler(schema.items, name)
        return lambda number: [make_item(number)]
    if schema.additional is not None:
        return lambda number: {}
    return _scalar_sampler(schema, name)


def _scalar_sampler(schema: Schema, name: str) -> Sampler:
    if schema.format in _FORMATS:
        return _FORMATS[schema.format]
    if schema.enum:
        values = schema.enum
        return lambda number: values[number % len(values)]
    if name in _NAMED:
        return _NAMED[name]
    if schema.type == "integer":
        return lambda number: number % 30000 + 1
    if schema.type == "boolean":
        return lambda number: True
    if schema.type == "number":
        return lambda number: 0.5
    return lambda number: f"n{number}"


def _address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


_FORMATS: dict[str, Sampler] = {
    "quantity": lambda number: str(number + 1),
    "int-or-string": lambda number: number % 60000 + 1,
    "date-time": lambda number: f"2026-01-02T03:{number // 60 % 60:02}:{number % 60:02}Z",
    "micro-time": lambda number: f"2026-01-02T03:04:05.{number % 1000000:06}Z",
    "byte": lambda number: "aGk=",
}
_NAMED: dict[str, Sampler] = {
    "ip": _address,
    "ips": _address,
    "IP": _address,
    "podIPs": _address,
    "hostIPs": _address,
    "addresses": _address,
    "externalIPs": _address,
    "nameservers": _address,
    "clusterIPs": _address,
    "loadBalancerSourceRanges": lambda number: f"{_address(number)}/32",
    "podCIDRs": lambda number: f"{_address(number)}/32",
    "cidrs": lambda number: f"{_address(number)}/32",
    "except": lambda number: f"{_address(number)}/32",
    "cidr": lambda number: f"{_address(number)}/32",
    "hosts": lambda number: f"h{number}.example.com",
    "host": lambda number: f"h{number}.example.com",
    "hostnames": lambda number: f"h{number}.example.com",
    "path": lambda number: f"p{number}",
    "finalizers": lambda number: f"example.com/f{number}",
    "accessModes": lambda number: "ReadWriteOnce",
    "searches": lambda number: f"s{number}.example.com",
    "operator": lambda number: "In",
    "effect": lambda number: "NoSchedule",
    "resources": lambda number: f"r{number}",
    "nonResourceURLs": lambda number: f"/u{number}",
    "usages": lambda number: "client auth",
    "driver": lambda number: f"d{number}.example.com",
    "policyName": lambda number: "p",
    "expression": lambda number: "true",
    "matchLabelKeys": lambda number: f"k{number}",
    "whenUnsatisfiable": lambda number: "DoNotSchedule",
    "topologyKey": lambda number: f"example.com/t{number}",
    "maxSkew": lambda number: 1,
    "weight": lambda number: 1,
    "add": lambda number: f"CAP_{number}",
    "drop": lambda number: f"CAP_{number}",
    "mountPath": lambda number: f"/m{number}",
    "devicePath": lambda number: f"/dev/d{number}",
    "uid": lambda number: f"uid-{number}",
    "protocol": lambda number: "TCP",
    "declaredFeatures": lambda number: f"Feature{number}",
    "verbs": lambda number: ("get", "list", "create")[number % 3],
    "operations": lambda number: ("CREATE", "UPDATE", "DELETE")[number % 3],
    "volumeLifecycleModes": lambda number: "Persistent",
    "resourceName": lambda number: f"r{number}",
    "kind": lambda number: "Thing",
    "apiVersion": lambda number: "example.com/v1",
}
_SELECTOR_TERM: dict[str, Any] = {"labelSelector": {"matchLabels": {"a": "b"}}}
_OBJECTS: dict[str, Sampler] = {
    "Container": lambda number: {"name": f"c{number}", "image": "nginx:1"},
    "EphemeralContainer": lambda number: {"name": f"e{number}", "image": "nginx:1"},
    "ContainerPort": lambda number: {"containerPort": number % 60000 + 1},
    "EnvVar": lambda number: {"name": f"V{number}", "value": f"$(V{number - 1})" if number else "a"},
    "EnvFromSource": lambda number: {"configMapRef": {"name": f"c{number}"}},
    "Volume": lambda number: {"name": f"v{number}", "emptyDir": {}},
    "VolumeMount": lambda number: {"name": "v0", "mountPath": f"/m{number}"},
    "ConfigMapVolumeSource": lambda number: {"name": f"c{number}"},
    "SecretVolumeSource": lambda number: {"secretName": f"s{number}"},
    "ConfigMapProjection": lambda number: {"name": f"c{number}"},
    "SecretProjection": lambda number: {"name": f"s{number}"},
    "ISCSIVolumeSource": lambda number: {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0},
    "ISCSIPersistentVolumeSource": lambda number: {
        "targetPortal": "10.0.0.1:3260",
        "iqn": "iqn.2001-04.com.example:a",
        "lun": 0,
    },
    "FCVolumeSource": lambda number: {"lun": 0},
    "MutatingWebhook": lambda number: _webhook(number),
    "ValidatingWebhook": lambda number: _webhook(number),
    "Mutation": lambda number: {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}},
    "DeviceConstraint": lambda number: {"matchAttribute": f"x.example.com/m{number}"},
    "OpaqueDeviceConfiguration": lambda number: {"driver": "x.example.com", "parameters": {"a": number}},
    "DeviceClassConfiguration": lambda number: {"opaque": {"driver": "x.example.com", "parameters": {"a": number}}},
    "DeviceClaimConfiguration": lambda number: {"opaque": {"driver": "x.example.com", "parameters": {"a": number}}},
    "CounterSet": lambda number: {"name": f"c{number}", "counters": {"a": {"value": "1"}}},
    "Counter": lambda number: {"value": "1"},
    "KeyToPath": lambda number: {"key": f"k{number}", "path": f"p{number}"},
    "VolumeProjection": lambda number: {
        "configMap": {"name": f"c{number}", "items": [{"key": "k", "path": f"p{number}"}]}
    },
    "DownwardAPIVolumeFile": lambda number: {"path": f"p{number}", "fieldRef": {"fieldPath": "metadata.name"}},
    "Toleration": lambda number: {"key": f"k{number}", "operator": "Exists"},
    "HostAlias": lambda number: {"ip": _address(number), "hostnames": [f"h{number}"]},
    "TopologySpreadConstraint": lambda number: {
        "topologyKey": f"example.com/t{number}",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": "b"}},
    },
    "NodeSelectorRequirement": lambda number: {"key": f"k{number}", "operator": "In", "values": ["a"]},
    "LabelSelectorRequirement": lambda number: {"key": f"k{number}", "operator": "In", "values": ["a"]},
    "NodeSelectorTerm": lambda number: {"matchExpressions": [{"key": f"k{number}", "operator": "In", "values": ["a"]}]},
    "PreferredSchedulingTerm": lambda number: {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": f"k{number}", "operator": "In", "values": ["a"]}]},
    },
    "PodAffinityTerm": lambda number: {**_SELECTOR_TERM, "topologyKey": f"example.com/t{number}"},
    "WeightedPodAffinityTerm": lambda number: {
        "weight": 1,
        "podAffinityTerm": {**_SELECTOR_TERM, "topologyKey": f"example.com/t{number}"},
    },
    "PodReadinessGate": lambda number: {"conditionType": f"example.com/c{number}"},
    "PodSchedulingGate": lambda number: {"name": f"example.com/g{number}"},
    "PodDNSConfigOption": lambda number: {"name": f"o{number}"},
    "Sysctl": lambda number: {"name": f"kernel.s{number}", "value": "1"},
    "HTTPHeader": lambda number: {"name": f"X-{number}", "value": "a"},
    "Probe": lambda number: {"httpGet": {"path": "/", "port": 80}},
    "Lifecycle": lambda number: {},
    "LifecycleHandler": lambda number: {"httpGet": {"path": "/", "port": 80}},
    "HTTPGetAction": lambda number: {"path": "/", "port": 80},
    "OwnerReference": lambda number: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": f"o{number}",
        "uid": f"00000000-0000-0000-0000-{number:012}",
    },
    "ManagedFieldsEntry": lambda number: {
        "manager": f"m{number}",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {f"f:l{number}": {}}}},
    },
    "ServicePort": lambda number: {"name": f"p{number}", "port": number % 65000 + 1},
    "EndpointPort": lambda number: {"name": f"p{number}", "port": number % 65000 + 1},
    "Endpoint": lambda number: {"addresses": [_address(number)]},
    "EndpointAddress": lambda number: {"ip": _address(number)},
    "EndpointSubset": lambda number: {
        "addresses": [{"ip": _address(number)}],
        "ports": [{"port": number % 65000 + 1}],
    },
    "Taint": lambda number: {"key": f"k{number}", "effect": "NoSchedule"},
    "Subject": lambda number: {"kind": "ServiceAccount", "name": f"s{number}", "namespace": "ns"},
    "PolicyRule": lambda number: {"apiGroups": [""], "resources": [f"r{number}"], "verbs": ["get"]},
    "NetworkPolicyPort": lambda number: {"port": number % 65000 + 1},
    "NetworkPolicyPeer": lambda number: {"ipBlock": {"cidr": f"{_address(number)}/32"}},
    "IPBlock": lambda number: {"cidr": "10.0.0.0/8"},
    "IngressTLS": lambda number: {"hosts": [f"h{number}.example.com"], "secretName": f"s{number}"},
    "IngressRule": lambda number: {
        "host": f"h{number}.example.com",
        "http": {"paths": [_ingress_path(number)]},
    },
    "HTTPIngressPath": lambda number: _ingress_path(number),
    "MatchCondition": lambda number: {"name": f"m{number}", "expression": "true"},
    "Variable": lambda number: {"name": f"v{number}", "expression": "1"},
    "Validation": lambda number: {"expression": "true", "message": f"m{number}"},
    "LocalObjectReference": lambda number: {"name": f"l{number}"},
    "ResourceClaim": lambda number: {"name": f"r{number}"},
    "PodResourceClaim": lambda number: {"name": f"r{number}", "resourceClaimName": f"c{number}"},
    "ObjectReference": lambda number: {"kind": "Secret", "name": f"o{number}"},
    "DeviceRequest": lambda number: {"name": f"r{number}", "exactly": {"deviceClassName": "gpu"}},
    "ExactDeviceRequest": lambda number: {"deviceClassName": "gpu"},
    "DeviceSubRequest": lambda number: {"name": f"s{number}", "deviceClassName": "gpu"},
    "DeviceSelector": lambda number: {"cel": {"expression": "true"}},
    "Device": lambda number: {"name": f"d{number}"},
    "DeviceAttribute": lambda number: {"string": f"s{number}"},
    "DeviceCapacity": lambda number: {"value": "1"},
    "MetricSpec": lambda number: {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    },
    "HPAScalingPolicy": lambda number: {"type": "Pods", "value": 1, "periodSeconds": 1},
    "PodFailurePolicyRule": lambda number: {
        "action": "Ignore",
        "onExitCodes": {"operator": "In", "values": [number % 200 + 1]},
    },
    "SuccessPolicyRule": lambda number: {"succeededIndexes": f"{number}"},
    "LimitRangeItem": lambda number: {"type": "Container", "max": {"cpu": "2"}},
    "TopologySelectorTerm": lambda number: {"matchLabelExpressions": [{"key": f"k{number}", "values": ["a"]}]},
    "TokenRequest": lambda number: {"audience": f"a{number}"},
    "CSINodeDriver": lambda number: {"name": f"d{number}.example.com", "nodeID": "i"},
    "RuleWithOperations": lambda number: _rule(number),
    "NamedRuleWithOperations": lambda number: _rule(number),
    "PersistentVolumeClaim": lambda number: {
        "metadata": {"name": f"v{number}"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "PodTemplateSpec": lambda number: {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    },
    "PodSpec": lambda number: {"containers": [{"name": "c", "image": "nginx:1"}]},
    "LabelSelector": lambda number: {"matchLabels": {"app": f"a{number}"}},
    "AggregationRule": lambda number: {"clusterRoleSelectors": [{"matchLabels": {"app": f"a{number}"}}]},
    "ContainerStatus": lambda number: {"name": f"c{number}", "image": "i", "imageID": "", "ready": False},
    "CustomResourceColumnDefinition": lambda number: {
        "name": f"c{number}",
        "type": "string",
        "jsonPath": f".spec.f{number}",
    },
    "CustomResourceDefinitionVersion": lambda number: {
        "name": f"v{number + 1}",
        "served": True,
        "storage": not number,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    },
    "JSONSchemaProps": lambda number: {"type": "object"},
    "SelectableField": lambda number: {"jsonPath": f".spec.f{number}"},
    "ValidationRule": lambda number: {"rule": "true"},
    "PolicyRulesWithSubjects": lambda number: {
        "subjects": [{"kind": "User", "user": {"name": f"u{number}"}}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
    },
    "ResourcePolicyRule": lambda number: {
        "verbs": ["get"],
        "apiGroups": [""],
        "resources": [f"r{number}"],
        "namespaces": ["*"],
    },
    "NonResourcePolicyRule": lambda number: {"verbs": ["get"], "nonResourceURLs": [f"/u{number}"]},
}


def _ingress_path(number: int) -> dict[str, Any]:
    return {
        "path": f"/p{number}",
        "pathType": "Prefix",
        "backend": {"service": {"name": "s", "port": {"number": 80}}},
    }


def _webhook(number: int) -> dict[str, Any]:
    return {
        "name": f"h{number}.example.com",
        "clientConfig": {"url": "https://example.com/x"},
        "rules": [_rule(0)],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def _rule(number: int) -> dict[str, Any]:
    return {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [f"r{number}"]}
