"""The operations on a resource by path, for both versions of OpenAPI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from sampan.api.resources.resource import GroupVersionKind, Resource, Subresource
from sampan.apiserver.nonresource.openapi import components
from sampan.apiserver.nonresource.openapi.components import NAME, NAMESPACE, PATH_BEYOND, PRETTY, Parameter
from sampan.apiserver.request.negotiation import CUSTOM_FORMS, OBJECT_MEDIA_TYPES, STREAM_MEDIA_TYPES
from sampan.apiserver.request.patches import APPLY_YAML, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
TEXT = ""
"""The schema name of a response that is text and not an object."""
_PROXY_METHODS = ("delete", "get", "head", "options", "patch", "post", "put")
_CONNECTED = frozenset({"attach", "exec", "portforward", "proxy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    method: str
    id: str
    description: str
    tag: str
    action: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    """The schema name of the request body."""
    body_forms: tuple[str, ...] = ("*/*",)
    body_required: bool = True
    responses: tuple[tuple[int, str], ...] = ()
    """Pairs of a status code and a schema name."""
    forms: tuple[str, ...] = OBJECT_MEDIA_TYPES
    kind: GroupVersionKind | None = None


@dataclass(frozen=True, slots=True)
class PathItem:
    path: str
    operations: tuple[Operation, ...]
    parameters: tuple[Parameter, ...] = field(default=())
    """The parameters of the path itself."""


class SchemaNames(Protocol):
    """Returns the schema names of kinds."""

    def find_name(self, kind: GroupVersionKind) -> str: ...

    def find_list_name(self, resource: Resource) -> str: ...


class ResourceOperations:
    """The paths of one resource. `names` returns the schema name of a kind; `is_returned` is whether a delete returns
    the object."""

    def __init__(self, *, resource: Resource, names: SchemaNames, is_returned: bool) -> None:
        self._resource, self._names, self._is_returned = resource, names, is_returned
        self._title, self._tag = title_and_tag(resource.group, resource.version)
        self._scope = "Namespaced" if resource.namespaced else ""
        self._forms = CUSTOM_FORMS if resource.is_custom else OBJECT_MEDIA_TYPES
        self._stream_forms = CUSTOM_FORMS if resource.is_custom else STREAM_MEDIA_TYPES
        start = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        self._start, self._below = start, f"/namespaces/{{namespace}}/{resource.plural}"
        if not resource.namespaced:
            self._below = f"/{resource.plural}"

    def paths(self) -> Iterator[PathItem]:
        resource, start = self._resource, self._start
        scope_parameters = (NAMESPACE,) if resource.namespaced else ()
        if resource.namespaced and "list" in resource.verbs:
            yield PathItem(f"{start}/{resource.plural}", (self._list(everywhere=True),), (PRETTY,))
        yield PathItem(start + self._below, tuple(self._collection()), (*scope_parameters, PRETTY))
        if object_operations := tuple(self._object()):
            yield PathItem(f"{start}{self._below}/{{name}}", object_operations, (NAME, *scope_parameters, PRETTY))
        for subresource in resource.subresources:
            yield from self._subresource(
                subresource, f"{start}{self._below}/{{name}}/{subresource.name}", scope_parameters
            )
        if "watch" in resource.verbs and not resource.is_custom:
            yield from self._watches(scope_parameters)

    # -- the resource itself -----------------------------------------------------------------------------------------

    def _collection(self) -> Iterator[Operation]:
        resource = self._resource
        if "deletecollection" in resource.verbs:
            yield self._operation(
                "delete",
                f"delete{self._title}Collection{self._scope}{resource.kind}",
                f"delete collection of {resource.kind}",
                action="deletecollection",
                parameters=components.DELETE_COLLECTION,
                body=f"{META}.DeleteOptions",
                body_required=False,
                responses=((200, f"{META}.Status"),),
            )
        if "list" in resource.verbs:
            yield self._list()
        if "create" in resource.verbs:
            yield self._create(self._names.find_name(resource.gvk), resource.gvk)

    def _list(self, *, everywhere: bool = False) -> Operation:
        resource = self._resource
        name = f"{resource.kind}ForAllNamespaces" if everywhere else f"{self._scope}{resource.kind}"
        return self._operation(
            "get",
            f"list{self._title}{name}",
            f"list or watch objects of kind {resource.kind}",
            action="list",
            parameters=components.LIST,
            responses=((200, self._names.find_list_name(resource)),),
            forms=self._stream_forms,
        )

    def _object(self) -> Iterator[Operation]:
        resource, verbs = self._resource, self._resource.verbs
        schema = self._names.find_name(resource.gvk)
        if "delete" in verbs:
            response_schema = schema if self._is_returned else f"{META}.Status"
            yield self._operation(
                "delete",
                f"delete{self._title}{self._scope}{resource.kind}",
                f"delete a {resource.kind}",
                action="delete",
                parameters=components.DELETE,
                body=f"{META}.DeleteOptions",
                body_required=False,
                responses=((200, response_schema), (202, response_schema)),
            )
        yield from self._views(verbs, schema, resource.gvk, "")

    def _views(self, verbs: Iterable[str], schema: str, kind: GroupVersionKind, suffix: str) -> Iterator[Operation]:
        """Return the get, patch and update operations of the object or a subresource."""
        resource = self._resource
        name = f"{self._title}{self._scope}{resource.kind}{suffix}"
        subject = f"{suffix.lower()} of the specified {resource.kind}" if suffix else f"the specified {resource.kind}"
        if "get" in verbs:
            yield self._operation(
                "get", f"read{name}", f"read {subject}", action="get", responses=((200, schema),), kind=kind
            )
        written = ((200, schema), (201, schema))
        if "patch" in verbs:
            yield self._operation(
                "patch",
                f"patch{name}",
                f"partially update {subject}",
                action="patch",
                parameters=components.PATCH,
                body=f"{META}.Patch",
                body_forms=self._patch_forms(),
                responses=written,
                kind=kind,
            )
        if "update" in verbs:
            yield self._operation(
                "put",
                f"replace{name}",
                f"replace {subject}",
                action="put",
                parameters=components.WRITE,
                body=schema,
                responses=written,
                kind=kind,
            )

    def _create(self, schema: str, kind: GroupVersionKind, suffix: str = "") -> Operation:
        resource = self._resource
        description = f"create {suffix.lower()} of a {resource.kind}" if suffix else f"create a {resource.kind}"
        return self._operation(
            "post",
            f"create{self._title}{self._scope}{resource.kind}{suffix}",
            description,
            action="post",
            parameters=components.WRITE,
            body=schema,
            responses=((200, schema), (201, schema), (202, schema)),
            kind=kind,
        )

    # -- subresources ------------------------------------------------------------------------------------------------

    def _subresource(self, sub: Subresource, path: str, scope_parameters: tuple[Parameter, ...]) -> Iterator[PathItem]:
        kind, suffix = self._resource.kind_of(sub), sub.name.capitalize()
        if sub.name in _CONNECTED:
            yield from self._build_connect_paths(sub, path, (NAME, *scope_parameters))
        elif sub.name == "log":
            yield PathItem(path, (self._log(),), (NAME, *scope_parameters, PRETTY))
        else:
            schema = self._names.find_name(kind)
            creations = [self._create(schema, kind, suffix)] if "create" in sub.verbs else []
            operations = (*self._views(sub.verbs, schema, kind, suffix), *creations)
            yield PathItem(path, operations, (NAME, *scope_parameters, PRETTY))

    def _log(self) -> Operation:
        name = f"{self._title}{self._scope}{self._resource.kind}Log"
        description = f"read log of the specified {self._resource.kind}"
        forms = ("text/plain", *OBJECT_MEDIA_TYPES)
        responses = ((200, TEXT),)
        return self._operation(
            "get", f"read{name}", description, action="get", parameters=components.LOG, responses=responses, forms=forms
        )

    def _build_connect_paths(
        self, sub: Subresource, path: str, scope_parameters: tuple[Parameter, ...]
    ) -> Iterator[PathItem]:
        methods = _PROXY_METHODS if sub.name == "proxy" else ("get", "post")
        yield PathItem(path, tuple(self._connect(sub, method, "") for method in methods), scope_parameters)
        if sub.name == "proxy":
            below = tuple(self._connect(sub, method, "WithPath") for method in methods)
            yield PathItem(f"{path}/{{path}}", below, (*scope_parameters, PATH_BEYOND))

    def _connect(self, sub: Subresource, method: str, suffix: str) -> Operation:
        resource = self._resource
        name = f"{self._title}{method.capitalize()}{self._scope}{resource.kind}{sub.name.capitalize()}{suffix}"
        return self._operation(
            method,
            f"connect{name}",
            f"connect {method.upper()} requests to {sub.name} of {resource.kind}",
            action="connect",
            parameters=components.CONNECT[sub.name],
            responses=((200, TEXT),),
            forms=("*/*",),
            kind=resource.kind_of(sub),
        )

    # -- deprecated watch paths --------------------------------------------------------------------------------------

    def _watches(self, scope_parameters: tuple[Parameter, ...]) -> Iterator[PathItem]:
        resource, start = self._resource, f"{self._start}/watch"
        if resource.namespaced:
            operation = self._watch(f"{resource.kind}ListForAllNamespaces", "watchlist")
            yield PathItem(f"{start}/{resource.plural}", (operation,), (PRETTY,))
        many = self._watch(f"{self._scope}{resource.kind}List", "watchlist")
        yield PathItem(start + self._below, (many,), (*scope_parameters, PRETTY))
        single_watch = self._watch(f"{self._scope}{resource.kind}", "watch")
        yield PathItem(f"{start}{self._below}/{{name}}", (single_watch,), (NAME, *scope_parameters, PRETTY))

    def _watch(self, name: str, action: str) -> Operation:
        subject = "an object" if action == "watch" else "a list"
        return self._operation(
            "get",
            f"watch{self._title}{name}",
            f"watch changes to {subject} of kind {self._resource.kind}; deprecated: use list with 'watch'",
            action=action,
            parameters=components.LIST,
            responses=((200, f"{META}.WatchEvent"),),
            forms=STREAM_MEDIA_TYPES,
        )

    def _patch_forms(self) -> tuple[str, ...]:
        forms = (APPLY_YAML, JSON_PATCH, MERGE_PATCH)
        return forms if self._resource.is_custom else (*forms, STRATEGIC_PATCH)

    def _operation(
        self,
        method: str,
        id: str,
        description: str,
        *,
        action: str,
        parameters: tuple[Parameter, ...] = (),
        body: str = "",
        body_forms: tuple[str, ...] = ("*/*",),
        body_required: bool = True,
        responses: tuple[tuple[int, str], ...],
        forms: tuple[str, ...] = (),
        kind: GroupVersionKind | None = None,
    ) -> Operation:
        return Operation(
            method=method,
            id=id,
            description=description,
            tag=self._tag,
            action=action,
            parameters=parameters,
            body=body,
            body_forms=body_forms,
            body_required=body_required,
            responses=responses,
            forms=forms or self._forms,
            kind=kind or self._resource.gvk,
        )


def title_and_tag(group: str, version: str = "") -> tuple[str, str]:
    """Return the prefix of operation IDs and the tag of a group and version: `RbacAuthorizationV1`,
    `rbacAuthorization_v1`."""
    words = group.removesuffix(".k8s.io").replace("-", ".").split(".") if group else ["core"]
    title = "".join(word[:1].upper() + word[1:] for word in words)
    tag = title[:1].lower() + title[1:]
    return title + version[:1].upper() + version[1:], f"{tag}_{version}" if version else tag


def make_read_only_path(
    path: str, id: str, description: str, tag: str, schema: str, forms: tuple[str, ...]
) -> PathItem:
    """Return a path that can only be read and has no parameters."""
    operation = Operation(
        method="get", id=id, description=description, tag=tag, responses=((200, schema),), forms=forms
    )
    return PathItem(path, (operation,))
