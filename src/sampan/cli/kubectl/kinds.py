"""Resolve resource types on the command line, such as po, pods, deployment.v1.apps or svc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.api.resources import SERVED
from sampan.cli.failures import CliError
from sampan.cli.kubectl.session import Session


@dataclass(frozen=True, slots=True)
class ResourceType:
    group: str
    version: str
    plural: str
    singular: str
    kind: str
    is_namespaced: bool

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def qualified(self) -> str:
        """The form that kubectl prints before a name: pod, deployment.apps."""
        return f"{self.singular}.{self.group}" if self.group else self.singular

    def collection(self, namespace: str) -> str:
        """Return the path of the collection, in a namespace if one is given."""
        inside = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        return f"{self.path}{inside}/{self.plural}"

    def object(self, namespace: str, name: str) -> str:
        return f"{self.collection(namespace)}/{name}"


class UnknownResourceType(CliError):
    """The API server does not serve this kind."""


class ResourceTypes:
    """The known resource types: the built-in ones and, after the first lookup of an unknown type, those of API
    discovery."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._resolved: list[tuple[ResourceType, frozenset[str]]] = [
            (
                ResourceType(r.group, r.version, r.plural, r.singular, r.kind, r.namespaced),
                frozenset({r.plural, r.singular, r.kind.lower(), *r.short_names}),
            )
            for served in SERVED
            for r in served.resources
        ]
        self._has_asked = False

    def named(self, word: str) -> ResourceType:
        """Return the resource type of a name, which may end in .GROUP or .VERSION.GROUP. Raise CliError if there is
        none."""
        name, _, rest = word.lower().partition(".")
        resource = self._look(lambda kind, names: name in names and _fits(kind, rest))
        if resource is None:
            raise CliError(f'the server doesn\'t have a resource type "{word}"')
        return resource

    def of(self, api_version: str, kind: str) -> ResourceType:
        """Return the resource type of an object's apiVersion and kind. Raise NoSuchKind if there is none."""
        group, _, version = api_version.rpartition("/")
        resource = self._look(lambda k, _: (k.group, k.version, k.kind) == (group, version, kind))
        if resource is None:
            raise UnknownResourceType(f'no matches for kind "{kind}" in version "{api_version}"')
        return resource

    def _look(self, test: Any) -> ResourceType | None:
        while True:
            for kind, names in self._resolved:
                if test(kind, names):
                    return kind
            if self._has_asked:
                return None
            self._ask()

    def _ask(self) -> None:
        self._has_asked = True
        groups = self._session.get("/apis")["groups"]
        versions = [("", "v1")] + [
            tuple(version["groupVersion"].split("/")) for group in groups for version in group["versions"]
        ]
        for group, version in versions:
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            for entry in self._session.get(path)["resources"]:
                if "/" in entry["name"]:
                    continue
                singular = entry.get("singularName") or entry["kind"].lower()
                names = {entry["name"], singular, entry["kind"].lower(), *entry.get("shortNames", ())}
                kind = ResourceType(group, version, entry["name"], singular, entry["kind"], entry["namespaced"])
                self._resolved.append((kind, frozenset(names)))


def _fits(kind: ResourceType, rest: str) -> bool:
    """Whether the suffix of a resource name (GROUP or VERSION.GROUP) matches this type."""
    if not rest:
        return True
    version, _, group = rest.partition(".")
    return kind.group == rest or (kind.version == version and kind.group == group)
