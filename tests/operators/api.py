"""The API client of the operator tests: plain HTTPS requests with JSON."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sampan.testing import Cluster
from tests.eventually import wait_until

MERGE_PATCH = "application/merge-patch+json"
_TIMEOUT_S = 60.0

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    code: int
    body: Any
    warnings: Sequence[str]

    @property
    def message(self) -> str:
        """The message of a Status."""
        return str(self.body["message"])


class Api:
    """The administrator's view of a cluster. Every request has a connection of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._address = urlsplit(cluster.url)
        self._tls = ssl.create_default_context(cafile=str(cluster.ca))
        self._tls.load_cert_chain(*cluster.client_certificate)

    def send(self, method: str, path: str, value: object = None, content_type: str = "application/json") -> Reply:
        host, port = self._address.hostname or "", self._address.port
        connection = http.client.HTTPSConnection(host, port, context=self._tls, timeout=_TIMEOUT_S)
        try:
            body = json.dumps(value).encode() if value is not None else None
            connection.request(method, path, body, {"Content-Type": content_type} if body else {})
            response = connection.getresponse()
            content = response.read()
            warnings = response.headers.get_all("Warning") or []
        finally:
            connection.close()
        return Reply(response.status, json.loads(content), [_warning_text(header) for header in warnings])

    def create(self, path: str, value: Object) -> Object:
        return self._expect(201, self.send("POST", path, value))

    def create_once_accepted(self, path: str, value: Object) -> Object:
        """Create an object as soon as the webhooks that judge it respond."""
        last: list[Object] = []

        def is_created() -> bool:
            reply = self.send("POST", path, value)
            last[:] = [reply.body]
            return reply.code == 201

        self._wait(is_created, last)
        return last[0]

    def get(self, path: str) -> Object:
        return self._expect(200, self.send("GET", path))

    def merge(self, path: str, patch: Object) -> Object:
        return self._expect(200, self.send("PATCH", path, patch, MERGE_PATCH))

    def delete(self, path: str) -> None:
        self._expect(200, self.send("DELETE", path))

    def items(self, path: str) -> list[Object]:
        listed: list[Object] = self.get(path)["items"]
        return listed

    def wait_for(self, path: str, holds: Callable[[Object], object] = lambda _: True) -> Object:
        """Return the object at a path once it exists and the condition holds."""
        last: list[Object] = []

        def is_as_expected() -> bool:
            reply = self.send("GET", path)
            last[:] = [reply.body]
            return reply.code == 200 and bool(holds(reply.body))

        self._wait(is_as_expected, last)
        return last[0]

    def wait_for_item(self, path: str, holds: Callable[[Object], object]) -> Object:
        """Return the first object of a list for which the condition holds, once there is one."""
        return next(
            item for item in self.wait_for(path, lambda page: any(map(holds, page["items"])))["items"] if holds(item)
        )

    def wait_gone(self, path: str) -> None:
        self._wait(lambda: self.send("GET", path).code == 404, [])

    def _wait(self, holds: Callable[[], bool], last: list[Object]) -> None:
        try:
            wait_until(holds)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {json.dumps(last, indent=1)}") from None

    def _expect(self, code: int, reply: Reply) -> Object:
        assert reply.code == code, json.dumps(reply.body, indent=1)
        value: Object = reply.body
        return value


def establish(api: Api, definition: Object) -> None:
    """Create a CustomResourceDefinition and wait until its resources are served."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.create(path, definition)
    api.wait_for(f"{path}/{definition['metadata']['name']}", lambda value: has_condition(value, "Established"))


def has_condition(value: Object, type_: str, status: str = "True") -> bool:
    conditions = value.get("status", {}).get("conditions") or ()
    return any((row["type"], row["status"]) == (type_, status) for row in conditions)


def write_service_account_kubeconfig(
    api: Api, cluster: Cluster, namespace: str, name: str, rules: Sequence[Object], path: Path
) -> None:
    """Create a service account with the rights of a new cluster role, and a kubeconfig file with its token."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.create(account, {"metadata": {"name": name}})
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    api.create(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    api.create(f"{rbac}/clusterrolebindings", binding)
    token = api.create(f"{account}/{name}/token", {"spec": {}})["status"]["token"]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": cluster.url, "certificate-authority": str(cluster.ca)}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": name, "namespace": namespace}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(config))


def _warning_text(header: str) -> str:
    """Return the text of `299 - "text"`."""
    return header.removeprefix('299 - "').removesuffix('"').replace('\\"', '"')
