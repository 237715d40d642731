"""The attributes of a request that authorizers decide on: user, verb and target."""

from __future__ import annotations

import msgspec

from sampan.api import fields, names, paths
from sampan.apiserver.call import Call, User


class Attributes(msgspec.Struct, frozen=True):
    user: User
    verb: str
    path: str = ""
    """The path of a non-resource request, for which all fields below are empty."""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    is_resource: bool = True
    label_selector: str = ""

    @property
    def whole_resource(self) -> str:
        """The resource with its subresource, as in RBAC rules: pods/log."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(call: Call, verb: str = "") -> Attributes:
    """Return the attributes of a classified request; `verb`, if not empty, replaces its own."""
    resource = call.resource
    if resource is None:
        return _unserved(call)
    by_fields, by_labels, name = _selected(call, call.verb, call.is_old_watch) if call.query else ("", "", "")
    return Attributes(
        call.user,
        verb or call.verb,
        "",
        resource.group,
        resource.version,
        resource.plural,
        call.subresource,
        call.namespace,
        call.name or name,
        by_fields,
        True,
        by_labels,
    )


def _unserved(call: Call) -> Attributes:
    """Return the attributes of a request for a non-resource path or a resource that is not served. It is authorized
    before a 404 is returned."""
    path = paths.parse(call.path)
    if path is None:
        return Attributes(call.user, call.verb, call.path, is_resource=False)
    verb = _verb(call, path)
    by_fields, by_labels, name = _selected(call, verb, path.watch)
    return Attributes(
        call.user,
        verb,
        "",
        path.group,
        path.version,
        path.plural,
        path.subresource,
        path.namespace,
        path.name or name,
        by_fields,
        True,
        by_labels,
    )


_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _verb(call: Call, path: paths.ResourcePath) -> str:
    verb = "watch" if path.watch else _VERBS.get(call.method, "")
    if path.name:
        return verb
    if verb == "get":
        return "watch" if call.query.flag("watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _selected(call: Call, verb: str, is_old_watch: bool) -> tuple[str, str, str]:
    """Return the field and label selector of the request, and the single name that they select. Only list, watch and
    deletecollection honour selectors; the deprecated watch paths do not always, so their selectors are ignored. The
    name is not derived for deletecollection."""
    if is_old_watch or verb not in ("list", "watch", "deletecollection"):
        return "", "", ""
    selector = call.query.get("fieldSelector")
    name = _selected_name(selector) if selector and verb != "deletecollection" else ""
    return selector, call.query.get("labelSelector"), name


def _selected_name(selector: str) -> str:
    try:
        terms = fields.parse(selector).exact()
    except fields.FieldSelectorError:
        return ""
    name = next((value for field, value in terms if field == "metadata.name"), "")
    return "" if names.path_segment(name) else name
