"""Random requests, most of them bad: from a seed, so that every run sends the same ones.

Three in four are HTTP that somebody could have meant: paths from the table of resources with odd names, options, forms
and bodies that nearly fit. The rest is noise on the wire: damaged, cut off, oversized.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import quote

import msgspec

from sampan.api.codec import protobuf
from sampan.api.resources.resource import Resource
from sampan.api.schema import schemas
from sampan.api.schema.tree import Schema
from sampan.api.scheme import Scheme, type_for


class End(Enum):
    """What the client does when it has sent its bytes."""

    READS = 1
    """Waits for the answer and goes on with the same connection."""
    LEAVES = 2
    """Closes the connection."""
    HALF = 3
    """Closes its sending side and waits for the answer."""


@dataclass(frozen=True)
class Case:
    data: bytes
    end: End = End.READS
    is_noise: bool = False
    """The bytes are damaged: any answer will do, and an end of the connection as well."""
    method: str = "GET"

    @property
    def is_watch(self) -> bool:
        line = self.data.partition(b"\r\n")[0]
        return self.method == "GET" and (b"/watch/" in line or b"watch=1" in line)

    def __str__(self) -> str:
        return f"{self.end.name} {self.data[:600]!r}"


METHODS = (
    *["GET"] * 4,
    *["POST"] * 5,
    *["PUT"] * 3,
    *["PATCH"] * 5,
    *["DELETE"] * 2,
    "HEAD",
    "OPTIONS",
    "TRACE",
    "LOCK",
)
NAMES = (
    *["a"] * 6,
    *("default", "kube-system", "b.c", "A", "a_b", "-", ".", "..", "x" * 64, "x" * 254, "\u00fc", "a b", "a%b", "a:80"),
    *("", "%", "\x00", "\x7f", "\ud7ff", "\U0001f980", "a/b", "a\nb", "*", "{ns}", "null", "0", "<x>", '"', "'", "\\"),
)
NAMESPACES = (*["default"] * 8, *("a", "", "kube-system", "nowhere", "..", "x" * 70, "\x00", "-"))
SPECIAL = (
    *("/", "/api", "/api/", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/x", "/apis/x/v1/y", "/api/v2"),
    *("/version", "/healthz", "/livez", "/readyz", "/readyz/ping", "/healthz/x", "/metrics", "/openapi/v2"),
    *("/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/openapi/v3/x", "/debug/pprof", "/logs/"),
    *("//", "/api//v1", "/api/v1//pods", "/api/v1/namespaces//pods", "/%2e%2e/etc/passwd", "/api/v1/watch", "/.."),
    *(
        "/api/v1/watch/pods",
        "/api/v1/watch/namespaces/default/pods/a",
        "/apis/apps/v1/watch/deployments",
        "/swagger.json",
    ),
)
ACCEPTS = (
    *[""] * 3,
    *["application/json"] * 3,
    *("*/*", "application/yaml", "application/vnd.kubernetes.protobuf", "application/*", "text/html", "x", ";", ",,,"),
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/yaml;as=Table;g=meta.k8s.io;v=v1beta1",
    "application/json;stream=watch",
    "application/json;pretty=1;q=0.5",
    "application/json;as=Table;g=x;v=y",
    "application/json;q=abc",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
)
PATCHES = (
    *("application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"),
    *("application/apply-patch+yaml", "application/apply-patch+cbor"),
)
TYPES = (
    *["application/json"] * 6,
    *("application/yaml", "application/vnd.kubernetes.protobuf", "", "text/plain", "x", "application/json;charset=x"),
    *("application/x-www-form-urlencoded", "multipart/form-data", "application/cbor", *PATCHES),
)
OPTIONS: dict[str, tuple[str, ...]] = {
    "dryRun": ("All", "None", "", "x"),
    "fieldManager": ("me", "x" * 200, "\n", ""),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x", ""),
    "force": ("true", "false", "maybe"),
    "pretty": ("true", "0", "x"),
    "limit": ("1", "0", "-1", "x", "99999999999999999999", "1.5"),
    "continue": ("x", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "", "%%%"),
    "resourceVersion": ("0", "1", "x", "-1", "", "1e3"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "labelSelector": ("a=b", "a in (b,c)", "!a", "a in", "((", "a==b,c!=d", "x" * 300, ",", "a>1", "\x00"),
    "fieldSelector": ("metadata.name=a", "spec.nodeName=", "status.phase!=Running", "x=y", "=", "a=b=c", "\\,", ","),
    "gracePeriodSeconds": ("0", "-5", "x", "30", "9999999999999999999999"),
    "propagationPolicy": ("Orphan", "Foreground", "Background", "x"),
    "orphanDependents": ("true", "x"),
    "timeout": ("1s", "x", "-1s", "1h", "0"),
    "timeoutSeconds": ("1", "0", "-1", "x"),
    "sendInitialEvents": ("true", "false", "x"),
    "allowWatchBookmarks": ("true", "x"),
    "includeObject": ("None", "Object", "x"),
    "watch": ("0", "false"),
    "verbose": ("", "1"),
    "exclude": ("ping", "etcd"),
    "command": ("ls", ""),
    "container": ("a", "\x00"),
    "follow": ("false",),
    "tailLines": ("1", "-1", "x"),
    "x": ("y",),
    "": ("",),
}
WORDS = (
    *("a", "b-c", "x.y/z", "\u00fc", "<&>", "", "0", "true", "null", "1Gi", "-5m", "1e400", "100%", "::1", "10.0.0.1"),
    *(
        "2026-01-02T03:04:05Z",
        "not a time",
        "aGk=",
        "!!!",
        "\x00",
        "\u2028",
        "x" * 300,
        "$(A)",
        "../..",
        "TCP",
        "Always",
    ),
)
NUMBERS = (0, 1, -1, 65536, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, -0.0, 1e300)


_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "a", "image": "b:c", "ports": [{"containerPort": 80}], "env": [{"name": "A"}]}]},
}
_SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}
VALID: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"a": "b"}, "binaryData": {"c": "aGk="}},
    "Secret": {"type": "Opaque", "data": {"a": "aGk="}, "stringData": {"b": "c"}},
    "ServiceAccount": {"imagePullSecrets": [{"name": "a"}], "automountServiceAccountToken": True},
    "Pod": {
        **_TEMPLATE,
        "spec": {
            **_TEMPLATE["spec"],
            "volumes": [{"name": "v", "configMap": {"name": "a", "items": [{"key": "a", "path": "b"}]}}],
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}},
            "securityContext": {"runAsUser": 1, "sysctls": [{"name": "a.b", "value": "c"}]},
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "Service": {
        "spec": {"ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}], "selector": {"a": "b"}},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
    },
    "Namespace": {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    "Node": {"spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "a", "effect": "NoSchedule"}]}},
    "Lease": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 5, "renewTime": "2026-01-02T03:04:05.000006Z"}},
    "Event": {"involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "A", "type": "Normal"},
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    "Deployment": {"spec": {"replicas": 1, **_SELECTED}},
    "ReplicaSet": {"spec": {"replicas": 1, **_SELECTED}},
    "StatefulSet": {"spec": {"serviceName": "a", **_SELECTED}},
    "DaemonSet": {"spec": _SELECTED},
    "ReplicationController": {"spec": {"selector": {"a": "b"}, "template": _TEMPLATE}},
    "Job": {"spec": {"template": {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}}},
    "PriorityClass": {"value": 5, "description": "a"},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    "ResourceQuota": {"spec": {"hard": {"pods": "5"}}},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
}
"""Valid objects, which the fuzzer damages."""


class Fuzzer:
    def __init__(self, scheme: Scheme, seed: int) -> None:
        self._random = random.Random(seed)
        self._resources = sorted(scheme, key=lambda resource: (resource.group, resource.version, resource.plural))
        self._favourites = [resource for resource in self._resources if resource.kind in VALID]

    def cases(self, count: int) -> list[Case]:
        return [self._case() for _ in range(count)]

    def _case(self) -> Case:
        pick = self._random.random()
        if pick < 0.74:
            return self._request()
        if pick < 0.90:
            return self._damaged_case()
        if pick < 0.95:
            return self._cut()
        if pick < 0.99:
            return self._noise()
        return self._oversized_case()

    # -- requests that somebody could have meant ---------------------------------------------------------------------

    def _request(self) -> Case:
        pick = self._random.random()
        if pick < 0.05:
            method = self._choose(METHODS)
            return Case(self._encode_request(method, self._choose(SPECIAL) + self._query(), {}, b""), method=method)
        if pick < 0.25:
            method, resource = self._choose(METHODS), self._choose(self._resources)
            target = self._path(resource) + self._query()
        else:
            resource = self._choose(self._favourites if pick < 0.8 else self._resources)
            method, target = self._choose_method_and_path(resource)
        name = target.partition("?")[0].rpartition("/")[2]
        media, body = self._content(method, resource, name if name in "ab" else self._choose("abcde"))
        accept = self._choose(ACCEPTS) if self._random.random() < 0.3 else ""
        headers = {"Accept": accept, "Content-Type": media, **self._odd_headers()}
        return Case(self._encode_request(method, target, headers, body), method=method)

    def _choose_method_and_path(self, resource: Resource) -> tuple[str, str]:
        """Return a method and a path that belong together."""
        start = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        where = f"{start}/namespaces/default/{resource.plural}" if resource.namespaced else f"{start}/{resource.plural}"
        verb = self._choose(resource.verbs)
        method = _METHODS[verb]
        if verb not in ("list", "create", "deletecollection", "watch"):
            where += "/" + (self._choose("aaab") if self._random.random() < 0.85 else self._choose_quoted(NAMES))
            parts = [part for part in resource.subresources if verb in part.verbs]
            if parts and self._random.random() < 0.3:
                where += "/" + self._choose(parts).name
        return method, where + self._query() + ("?watch=1" if verb == "watch" else "")

    def _path(self, resource: Resource) -> str:
        start = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        parts = [resource.plural]
        if resource.namespaced and self._random.random() < 0.95:
            parts = ["namespaces", self._choose_quoted(NAMESPACES), resource.plural]
        if self._random.random() < 0.75:
            parts.append(self._choose_quoted(NAMES))
            known = [subresource.name for subresource in resource.subresources]
            if known and self._random.random() < 0.3:
                parts.append(self._choose([*known, "x", ""]))
                if self._random.random() < 0.2:
                    parts += ["more", "still"]
        return "/".join([start, *parts])

    def _query(self) -> str:
        if self._random.random() < 0.6:
            return ""
        chosen = [self._choose(list(OPTIONS)) for _ in range(self._random.randint(1, 3))]
        return "?" + "&".join(f"{key}={quote(self._choose(OPTIONS[key]))}" for key in chosen)

    def _odd_headers(self) -> dict[str, str]:
        if self._random.random() < 0.9:
            return {}
        headers: dict[str, str] = self._choose(
            [
                {"User-Agent": "\u00e9" * 50},
                {"User-Agent": "curl/8"},
                {"Accept-Encoding": "gzip"},
                {"Content-Encoding": "gzip"},
                {"Authorization": "Bearer x"},
                {"Authorization": "Basic \u00ff"},
                {"Impersonate-User": "x"},
                {"If-None-Match": '"x"'},
                {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"},
                {"Connection": "close"},
                {"Cookie": "a=b"},
                {"Range": "bytes=0-"},
            ]
        )
        return headers

    def _content(self, method: str, resource: Resource, name: str) -> tuple[str, bytes]:
        if method in ("GET", "HEAD") and self._random.random() < 0.9:
            return "", b""
        if method == "DELETE" and self._random.random() < 0.9:
            return self._deletion()
        if method == "PATCH":
            media = self._choose(PATCHES[:4] if self._random.random() < 0.9 else TYPES)
        else:
            media = self._choose(TYPES[:8] if self._random.random() < 0.9 else TYPES)
        value = self._object(resource, name)
        if media == "application/json-patch+json":
            return media, self._maybe_damage(msgspec.json.encode(self._json_patch()))
        if media == "application/vnd.kubernetes.protobuf":
            return media, self._maybe_damage(self._protobuf(resource, value))
        if media.endswith("yaml"):
            return media, self._maybe_damage(self._yaml(value))
        return media, self._maybe_damage(_json(value))

    def _maybe_damage(self, data: bytes) -> bytes:
        """Return the data, sometimes damaged or replaced."""
        pick = self._random.random()
        if pick < 0.8:
            return data
        if pick < 0.93:
            return self._mutate(data)
        deep = self._choose((50, 2000, 100_000))
        body: bytes = self._choose(
            (
                b"",
                b"null",
                b"[]",
                b'"x"',
                b"{" * deep,
                b"[" * deep,
                b'{"metadata":' * deep + b"{}" + b"}" * deep,
                b'{"a":1,"a":2}',
                b'{"metadata":{"name":"\\ud800"}}',
                b'{"metadata":{"name":"a","labels":{"a":"\xff\xfe"}}}',
                b"\xef\xbb\xbf{}",
                b"{}{}",
                b"- " * deep,
                b"a: &a [*a]\n",
                b"a: &a [x,x,x,x,x,x,x,x]\n" + b"".join(b"b%d: &b%d [*a,*a,*a,*a,*a,*a]\n" % (i, i) for i in range(9)),
                b"? ? ? ? x",
                b"!!python/object/apply:os.system [true]",
                b"k8s\x00" + b"\xff" * 40,
                b"k8s\x00\x0a\x02\x0a\x00",
                bytes(self._random.randrange(256) for _ in range(60)),
            )
        )
        return body

    # -- bodies ------------------------------------------------------------------------------------------------------

    def _deletion(self) -> tuple[str, bytes]:
        if self._random.random() < 0.6:
            return "", b""
        value = {
            "kind": self._choose(("DeleteOptions", "DeleteOptions", "x")),
            "apiVersion": self._choose(("v1", "x/y", "")),
            self._choose(
                ("gracePeriodSeconds", "propagationPolicy", "orphanDependents", "dryRun", "preconditions", "x")
            ): (
                self._choose(
                    (0, -1, "Orphan", "Foreground", True, ["All"], {"uid": "x"}, {"resourceVersion": "1"}, None)
                )
            ),
        }
        return "application/json", self._maybe_damage(_json(value))

    def _object(self, resource: Resource, name: str) -> dict[str, Any]:
        kind = type_for(resource.gvk)
        source = resource.schema or (schemas.schema_of(kind) if kind is not None else None)
        schema = source.tree if source is not None else None
        if resource.kind in VALID and self._random.random() < 0.75:
            value = copy.deepcopy(VALID[resource.kind])
            for _ in range(self._choose((0, 0, 1, 1, 2))):
                self._disturb(value, schema)
        else:
            value = self._value(schema, 6) if schema is not None else {}
        if not isinstance(value, dict):
            value = {}
        if self._random.random() < 0.9:
            value |= {"apiVersion": resource.gvk.api_version, "kind": resource.kind}
        if self._random.random() < 0.95:
            value["metadata"] = {
                **self._metadata(),
                "name": name if self._random.random() < 0.9 else self._choose(NAMES),
            }
        return value

    def _disturb(self, value: Any, schema: Schema | None) -> None:
        """Change one value at a random place."""
        while True:
            keys: Any = list(value) if isinstance(value, dict) else range(len(value))
            if schema is not None and schema.properties and self._random.random() < 0.3:
                name = self._choose(list(schema.properties))
                value[name] = self._value(schema.properties[name], 4)
                return
            if not keys:
                return
            key = self._choose(keys)
            below = (schema.child(key) if isinstance(key, str) else schema.items) if schema is not None else None
            if isinstance(value[key], dict | list) and value[key] and self._random.random() < 0.8:
                value, schema = value[key], below
                continue
            if below is not None and self._random.random() < 0.5:
                value[key] = self._value(below, 3)
            else:
                value[key] = self._choose((None, {}, [], self._choose(WORDS), self._choose(NUMBERS), True))
            return

    def _metadata(self) -> dict[str, Any]:
        pick: dict[str, Callable[[], Any]] = {
            "labels": lambda: {self._choose(WORDS): self._choose(WORDS)},
            "annotations": lambda: {self._choose(WORDS): self._choose(WORDS)},
            "namespace": lambda: self._choose(NAMESPACES),
            "generateName": lambda: self._choose(NAMES),
            "resourceVersion": lambda: self._choose(WORDS),
            "uid": lambda: self._choose(WORDS),
            "finalizers": lambda: [self._choose(WORDS)],
            "ownerReferences": lambda: [{"kind": self._choose(WORDS), "name": "a", "uid": self._choose(WORDS)}],
            "managedFields": lambda: [
                {"manager": "x", "operation": self._choose(WORDS), "fieldsV1": self._choose([{}, 1])}
            ],
            "deletionTimestamp": lambda: self._choose(WORDS),
            "creationTimestamp": lambda: self._choose(WORDS),
            "generation": lambda: self._choose(NUMBERS),
        }
        return {name: make() for name, make in pick.items() if self._random.random() < 0.03}

    def _value(self, schema: Schema, depth: int) -> Any:
        """Return a value that nearly matches the schema."""
        if self._random.random() < 0.02:
            return self._choose(
                (None, {}, [], "", 0, True, {"a": 1}, [None], self._choose(WORDS), self._choose(NUMBERS))
            )
        if schema.properties:
            chance = 4 / max(len(schema.properties), 4)
            names = [name for name in schema.properties if name in schema.required or self._random.random() < chance]
            value = {name: self._value(schema.properties[name], depth - 1) for name in names} if depth else {}
            return value | ({self._choose(WORDS): 1} if self._random.random() < 0.03 else {})
        if schema.additional is not None:
            return {
                self._choose(WORDS): self._value(schema.additional, depth - 1)
                for _ in range(self._random.randint(0, 2))
            }
        if schema.items is not None:
            return [self._value(schema.items, depth - 1) for _ in range(self._random.randint(0, 2))] if depth else []
        if schema.enum and self._random.random() < 0.8:
            return self._choose(schema.enum)
        scalars: dict[str, tuple[Any, ...]] = {"integer": NUMBERS, "number": NUMBERS, "boolean": (True, False)}
        return self._choose(scalars.get(schema.type, WORDS))

    def _json_patch(self) -> Any:
        paths = (
            "/metadata/labels",
            "/metadata/labels/a",
            "/spec",
            "/data/x",
            "/spec/containers/0",
            "/",
            "",
            "x",
            "/a~2b",
        )
        step = lambda: {  # noqa: E731
            "op": self._choose(("add", "remove", "replace", "move", "copy", "test", "x")),
            "path": self._choose((*paths, "/metadata/annotations/" + "x" * 50, "/spec/containers/-", 5, None)),
            "from": self._choose(paths),
            "value": self._choose((1, None, {}, {"a": "b"}, [1], "x", *NUMBERS)),
        }
        return [step() for _ in range(self._random.randint(0, 4))]

    def _yaml(self, value: dict[str, Any]) -> bytes:
        import yaml

        return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")

    def _protobuf(self, resource: Resource, value: dict[str, Any]) -> bytes:
        try:
            return protobuf.encode({**value, "apiVersion": resource.gvk.api_version, "kind": resource.kind})
        except Exception:
            return b"k8s\x00" + _json(value)[:200]

    # -- noise -------------------------------------------------------------------------------------------------------

    def _damaged_case(self) -> Case:
        return Case(self._mutate(self._request().data, most=6), self._choose((End.HALF, End.LEAVES)), is_noise=True)

    def _cut(self) -> Case:
        data = self._request().data
        return Case(data[: self._random.randrange(len(data))], self._choose((End.HALF, End.LEAVES)), is_noise=True)

    def _noise(self) -> Case:
        size = self._choose((1, 10, 300, 5000))
        data = bytes(self._random.choices(range(256), k=size))
        start = self._choose(
            (b"", b"GET ", b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\n", b"GET / HTTP/1.1\r\n", b"\r\n" * 5)
        )
        return Case(start + data, self._choose((End.HALF, End.LEAVES)), is_noise=True)

    def _oversized_case(self) -> Case:
        line = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n"
        post = line + b"Host: x\r\nContent-Type: application/json\r\n"
        large = self._choose(
            (
                lambda: b"GET /" + b"a" * 150_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                lambda: b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
                lambda: b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: a\r\n" * 300 + b"\r\n",
                lambda: post + b"Content-Length: 4000000\r\n\r\n" + b"x" * 4_000_000,
                lambda: post + b"Transfer-Encoding: chunked\r\n\r\n" + b"80000\r\n%b\r\n" % (b"x" * 524288) * 7,
                lambda: _add_length(post, _json({"metadata": {"name": "big"}, "data": {"x": "y" * 2_000_000}})),
                lambda: _add_length(
                    post, _json({"metadata": {"name": "wide"}, "data": {str(n): "" for n in range(100_000)}})
                ),
            )
        )
        return Case(large(), self._choose((End.HALF, End.LEAVES)), is_noise=True)

    def _mutate(self, data: bytes, most: int = 3) -> bytes:
        mutated = bytearray(data)
        for _ in range(self._random.randint(1, most)):
            at = self._random.randrange(len(mutated) + 1)
            match self._random.randrange(5):
                case 0:
                    mutated[at : at + 1] = bytes([self._random.randrange(256)])
                case 1:
                    del mutated[at : at + self._random.randint(1, 20)]
                case 2:
                    mutated[at:at] = bytes(self._random.choices(range(256), k=self._random.randint(1, 8)))
                case 3:
                    mutated[at:at] = mutated[at : at + 30]
                case _:
                    mutated[at:at] = self._choose(
                        (b"\x00", b"\r\n", b'"', b"{", b"[", b"-", b"1e999", b"\\u0000", b"null")
                    )
        return bytes(mutated)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _choose(self, choices: Any) -> Any:
        return choices[self._random.randrange(len(choices))]

    def _choose_quoted(self, choices: tuple[str, ...]) -> str:
        return quote(self._choose(choices), safe=self._choose(("", "/:")))

    def _encode_request(self, method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
        lines = [
            f"{method} {target} HTTP/1.1",
            "Host: x",
            *(f"{name}: {text}" for name, text in headers.items() if text),
        ]
        head = "\r\n".join(lines).encode() + b"\r\n"
        if not body:
            return head + b"\r\n"
        if self._random.random() < 0.1:
            middle = self._random.randrange(len(body) + 1)
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:middle], body[middle:]) if part)
            return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        return _add_length(head, body)


def _add_length(head: bytes, body: bytes) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _json(value: Any) -> bytes:
    import json

    return json.dumps(value).encode()
