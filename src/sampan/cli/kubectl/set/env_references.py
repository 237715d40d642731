"""References of environment variables to ConfigMaps, Secrets, fields and resources (`cmd/set/env/env_resolve.go`)."""

from __future__ import annotations

import base64
from typing import Any

from sampan.api import quantity
from sampan.api.go_compat import gotext
from sampan.cli.failures import CliError
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.session import ServerError
from sampan.cli.kubectl.targets import ResourceInfo


def reference_text(source: dict[str, Any]) -> str:
    """Return the source of an environment variable as `kubectl set env --list` describes it."""
    if reference := source.get("configMapKeyRef"):
        return f"configmap {reference.get('name', '')}, key {reference['key']}"
    if reference := source.get("secretKeyRef"):
        return f"secret {reference.get('name', '')}, key {reference['key']}"
    if reference := source.get("fieldRef"):
        return f"field path {reference['fieldPath']}"
    if reference := source.get("resourceFieldRef"):
        prefix = f"{reference['containerName']}/" if reference.get("containerName") else ""
        return f"resource field {prefix}{reference['resource']}"
    return "invalid valueFrom"


class EnvReferences:
    """Resolves references with requests to the server. Each ConfigMap and Secret is read once."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._data: dict[str, dict[str, str]] = {}

    def value(self, source: dict[str, Any], info: ResourceInfo, container: dict[str, Any]) -> str:
        """Return the value of a reference. Raise CliError if there is none."""
        if reference := source.get("secretKeyRef"):
            return base64.b64decode(self._entry("secrets", "secret", reference)).decode("utf-8", "replace")
        if reference := source.get("configMapKeyRef"):
            return self._entry("configmaps", "config map", reference)
        if reference := source.get("fieldRef"):
            return field_text(info.value, reference["fieldPath"])
        if reference := source.get("resourceFieldRef"):
            return resource_text(container.get("resources") or {}, reference)
        raise CliError("invalid valueFrom")

    def _entry(self, plural: str, what: str, reference: dict[str, Any]) -> str:
        path = f"/api/v1/namespaces/{self._factory.namespace}/{plural}/{reference['name']}"
        if path not in self._data:
            try:
                self._data[path] = self._factory.session.get(path).get("data") or {}
            except ServerError as error:
                raise CliError(error.error.message) from None
        if reference["key"] not in self._data[path]:
            raise CliError(f"key {reference['key']} not found in {what} {reference['name']}")
        return self._data[path][reference["key"]]


def field_text(value: dict[str, Any], path: str) -> str:
    """Return a field of an object's metadata as the kubelet writes it."""
    metadata = value["metadata"]
    field, bracket, key = path.removesuffix("']").rpartition("['")
    if field and bracket and path.endswith("']"):
        if field not in ("metadata.annotations", "metadata.labels"):
            raise CliError(f"fieldPath {gotext.quote(path)} does not support subscript")
        return str((metadata.get(field.removeprefix("metadata.")) or {}).get(key, ""))
    if path in ("metadata.annotations", "metadata.labels"):
        entries = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f"{key}={gotext.quote(text)}" for key, text in sorted(entries.items()))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(metadata.get(path.removeprefix("metadata.")) or "")
    raise CliError(f"unsupported fieldPath: {path}")


def resource_text(resources: dict[str, Any], reference: dict[str, Any]) -> str:
    """Return an amount of a container's resources, divided and rounded up."""
    where, _, name = reference["resource"].partition(".")
    is_known = name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
    if where not in ("limits", "requests") or not is_known:
        raise CliError(f"Unsupported container resource : {reference['resource']}")
    amount = quantity.parse(str((resources.get(where) or {}).get(name, "0")))
    divisor = quantity.parse(str(reference.get("divisor") or "0"))
    if not divisor:
        divisor = quantity.parse("1")
    if name == "cpu":
        return str(-(-amount.milli_value() // divisor.milli_value()))
    return str(-(-amount.value() // divisor.value()))
