"""OpenAPI v3: one document for each group and version, and a few for other paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sampan.api.kubernetes_version import MAJOR
from sampan.api.resources.resource import Resource
from sampan.api.resources.resource_table import BUILT_IN
from sampan.api.resources.retired import RETIRED
from sampan.apiserver.nonresource.openapi.components import META, Definitions, Parameter
from sampan.apiserver.nonresource.openapi.operations import (
    TEXT,
    Operation,
    PathItem,
    ResourceOperations,
    make_read_only_path,
    title_and_tag,
)
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.request.negotiation import JSON, OBJECT_MEDIA_TYPES

SHARED_VERSIONS: list[tuple[str, str]] = sorted(
    {
        *((group, version) for group, _, version in (retired.rpartition("/") for retired in RETIRED)),
        *((version.group, version.version) for version in BUILT_IN),
    }
    - {("apiextensions.k8s.io", "v1"), ("apiregistration.k8s.io", "v1")}
)
"""The groups and versions of kinds that every group has, in the documents of custom resources: all that
kube-apiserver's own scheme knows."""
CUSTOM_INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_PREFIX = "#/components/schemas/"
SECURITY_SCHEMES = {
    "BearerToken": {
        "description": "Bearer Token authentication",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    }
}
_VERSION = "io.k8s.apimachinery.pkg.version.Info"


class NoDocument(KeyError):
    """There is no document of this name; the group of custom resources may have been removed meanwhile."""


class OpenApiContents:
    """The paths of each document by its name: `api/v1`, `apis/apps/v1`, `version`."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._scheme = registry, registry.scheme
        self.definitions = Definitions(registry.scheme)
        self.info = {"title": "Kubernetes", "version": f"{MAJOR}.{registry.feature_gates.level}"}

    def names(self) -> list[str]:
        names = [*_ISSUER, "version"]
        for group in self._scheme.groups():
            start = f"apis/{group}" if group else "api"
            names += [f"{start}/{version}" for version in self._scheme.versions(group)]
            if not self._scheme.is_custom_group(group):
                names.append(start)
        if any(self._scheme.groups()):
            names.append("apis")
        return sorted(names)

    def paths(self, name: str) -> list[PathItem]:
        """Return the paths of a document. Raise NoDocument if it does not exist."""
        if name not in self.names():
            raise NoDocument(name)
        if name in _ROOTS or name in _ISSUER:
            return [_ROOTS.get(name) or _ISSUER[name]]
        if versions := self.versions(name):
            return list(self._list_version_paths(*versions[0]))
        return [_group(name.removeprefix("apis/"))]

    def is_custom(self, name: str) -> bool:
        return name.startswith("apis/") and self._scheme.is_custom_group(name.split("/")[1])

    def versions(self, name: str) -> list[tuple[str, str]]:
        """Return the group and version of a document; empty if it is about none."""
        prefix, *parts = name.split("/")
        if prefix == "api" and len(parts) == 1:
            return [("", parts[0])]
        return [(parts[0], parts[1])] if prefix == "apis" and len(parts) == 2 else []

    def resources(self, group: str, version: str) -> list[Resource]:
        return self._scheme.resources(group, version)

    def _list_version_paths(self, group: str, version: str) -> Iterator[PathItem]:
        resources = self._scheme.resources(group, version)
        if not self._scheme.is_custom_group(group):
            yield _resource_list(group, version)
        for resource in resources:
            strategy = self._registry.behavior(resource).strategy
            is_returned = strategy.return_deleted_object or version in strategy.lenient_versions
            operations = ResourceOperations(resource=resource, names=self.definitions, is_returned=is_returned)
            yield from operations.paths()


_ROOTS = {
    "api": make_read_only_path(
        "/api/", "getCoreAPIVersions", "get available API versions", "core", f"{META}.APIVersions", OBJECT_MEDIA_TYPES
    ),
    "apis": make_read_only_path(
        "/apis/", "getAPIVersions", "get available API versions", "apis", f"{META}.APIGroupList", OBJECT_MEDIA_TYPES
    ),
    "version": make_read_only_path(
        "/version/", "getCodeVersion", "get the version of this server", "version", _VERSION, (JSON,)
    ),
}


_ISSUER = {
    ".well-known/openid-configuration": make_read_only_path(
        "/.well-known/openid-configuration/",
        "getServiceAccountIssuerOpenIDConfiguration",
        "get the OpenID configuration of the issuer of service account tokens",
        "WellKnown",
        TEXT,
        (JSON,),
    ),
    "openid/v1/jwks": make_read_only_path(
        "/openid/v1/jwks/",
        "getServiceAccountIssuerOpenIDKeyset",
        "get the public keys of the issuer of service account tokens",
        "openid",
        TEXT,
        ("application/jwk-set+json",),
    ),
}


def _group(group: str) -> PathItem:
    title, tag = title_and_tag(group)
    description = "get information of a group"
    return make_read_only_path(
        f"/apis/{group}/", f"get{title}APIGroup", description, tag, f"{META}.APIGroup", OBJECT_MEDIA_TYPES
    )


def _resource_list(group: str, version: str) -> PathItem:
    title, tag = title_and_tag(group, version)
    path = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
    description = "get available resources"
    return make_read_only_path(
        path, f"get{title}APIResources", description, tag, f"{META}.APIResourceList", OBJECT_MEDIA_TYPES
    )


def document(contents: OpenApiContents, name: str) -> dict[str, Any]:
    items = contents.paths(name)
    is_custom = contents.is_custom(name)
    versions = SHARED_VERSIONS if is_custom else contents.versions(name)
    components: dict[str, Any] = {"schemas": contents.definitions.closure(collect_schema_names(items), versions)}
    if not is_custom:
        components["securitySchemes"] = SECURITY_SCHEMES
    return {
        "openapi": "3.0.0",
        "info": CUSTOM_INFO if is_custom else contents.info,
        "paths": {item.path: _path(item) for item in sorted(items, key=lambda item: item.path)},
        "components": components,
    }


def collect_schema_names(items: Iterable[PathItem]) -> set[str]:
    operations = [operation for item in items for operation in item.operations]
    names = {schema for operation in operations for _, schema in operation.responses}
    names |= {operation.body for operation in operations}
    return names - {TEXT}


def _path(item: PathItem) -> dict[str, Any]:
    shared, operations = hoist_shared_parameters(item)
    path_value: dict[str, Any] = {operation.method: _operation(operation, own) for operation, own in operations}
    if shared:
        path_value["parameters"] = [_parameter(parameter) for parameter in shared]
    return path_value


def hoist_shared_parameters(item: PathItem) -> tuple[list[Parameter], list[tuple[Operation, list[Parameter]]]]:
    """Return the parameters that all operations of a path share, and each operation with its remaining ones."""
    every = [set(operation.parameters) for operation in item.operations]
    shared = set.intersection(*every) if every else set()
    own = [(entry, [p for p in entry.parameters if p not in shared]) for entry in item.operations]
    return sorted({*shared, *item.parameters}, key=lambda entry: (entry.name, entry.place)), own


def _operation(operation: Operation, own: list[Parameter]) -> dict[str, Any]:
    responses = {
        str(code): {"description": _CODES[code], "content": _content(operation.forms, schema)}
        for code, schema in operation.responses
    }
    operation_value: dict[str, Any] = {
        "description": operation.description,
        "operationId": operation.id,
        "responses": {**responses, "401": {"description": "Unauthorized"}},
        "tags": [operation.tag],
    }
    if own:
        operation_value["parameters"] = [_parameter(parameter) for parameter in own]
    if operation.body:
        operation_value["requestBody"] = {"content": _content(operation.body_forms, operation.body)}
        if operation.body_required:
            operation_value["requestBody"]["required"] = True
    return {**operation_value, **extensions(operation)}


_CODES = {200: "OK", 201: "Created", 202: "Accepted"}


def extensions(operation: Operation) -> dict[str, Any]:
    if operation.kind is None or not operation.action:
        return {}
    kind = operation.kind
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return {"x-kubernetes-action": operation.action, "x-kubernetes-group-version-kind": gvk}


def _content(forms: tuple[str, ...], schema: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"$ref": _PREFIX + schema} if schema != TEXT else {"type": "string"}
    return {form: {"schema": shown} for form in forms}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    parameter_value: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "schema": {"type": parameter.type, "uniqueItems": True},
    }
    return {**parameter_value, "required": True} if parameter.place == "path" else parameter_value
