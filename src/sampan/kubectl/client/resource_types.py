"""Resolve resource types on the command line, such as po, pods, deployment.v1.apps or svc, by API discovery.

The counterparts are client-go's `restmapper` package with its shortcut and category expanders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from sampan.kubectl.client.discovery_cache import DiscoveryCache
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import KubectlError, ServerError

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


class UnknownResourceType(KubectlError):
    """The API server does not serve this kind."""


class ResourceTypes:
    """The resource types that the API server serves. They are discovered when the first one is needed, or come from
    the cache of an earlier command. A type that is not in the cache is looked for on the server."""

    def __init__(self, session: Session, cache: DiscoveryCache | None = None) -> None:
        self._session = session
        self._cache = cache
        self._types: list[ResourceType] | None = None
        self._is_cached = False
        self.failed_groups: dict[str, str] = {}
        """The group versions that discovery could not load, with the reasons."""
        self._warnings: set[str] = set()

    def list_all(self) -> list[ResourceType]:
        """Return every type in all its versions, in the order of discovery."""
        if self._types is None and self._cache is not None:
            self._types = self._cache.load()
            self._is_cached = self._types is not None
        return self._types if self._types is not None else self.discover()

    def discover(self) -> list[ResourceType]:
        """Request every type from the server, whatever the cache has."""
        self._types, self._is_cached = list(self._discover()), False
        if self._cache is not None and self._types and not self.failed_groups:
            self._cache.store(self._types)
        return self._types

    def list_preferred(self) -> list[ResourceType]:
        """Return every type once, in the preferred version of its group that has it."""
        first: dict[tuple[str, str], ResourceType] = {}
        for kind in self.list_all():
            first.setdefault((kind.group, kind.plural), kind)
        return list(first.values())

    def find_by_name(self, word: str) -> ResourceType:
        """Return the resource type of a name, which may end in .GROUP or .VERSION.GROUP. Raise KubectlError if there is
        none."""
        resource = self._find_resource(word.lower()) or self._find_kind(word)
        if resource is None and self._is_cached:
            self.discover()
            return self.find_by_name(word)
        if resource is None:
            name, _, group = word.partition(".")
            suffix = f' in group "{group}"' if group else ""
            raise KubectlError(f'the server doesn\'t have a resource type "{name}"{suffix}')
        return resource

    def find_by_kind(self, api_version: str, kind: str) -> ResourceType:
        """Return the resource type of an object's apiVersion and kind. Raise UnknownResourceType if there is none."""
        group, _, version = api_version.rpartition("/")
        for resource in self.list_all():
            if (resource.group, resource.version, resource.kind) == (group, version, kind):
                return resource
        if self._is_cached:
            self.discover()
            return self.find_by_kind(api_version, kind)
        raise UnknownResourceType(f'no matches for kind "{kind}" in version "{api_version}"')

    def list_category(self, name: str) -> list[ResourceType]:
        """Return the resource types of a category such as `all`; an empty list if there is no such category."""
        return [kind for kind in self.list_preferred() if name in kind.categories]

    def _find_resource(self, word: str) -> ResourceType | None:
        """Look up a plural, singular or short name. VERSION.GROUP is tried before GROUP."""
        name, _, suffix = word.partition(".")
        version, dot, group = suffix.partition(".")
        if dot and (resource := self._find_match(name, group, version)) is not None:
            return resource
        return self._find_match(name, suffix, "")

    def _find_match(self, name: str, group: str, version: str) -> ResourceType | None:
        of_version = [kind for kind in self.list_all() if version in ("", kind.version)]
        for groups in ({group}, {kind.group for kind in of_version if kind.group.startswith(group)}):
            types = [kind for kind in of_version if not group or kind.group in groups]
            matches = [kind for kind in types if name in (kind.plural, kind.singular or kind.kind.lower())]
            if matches:
                return matches[0]
            if shortened := [kind for kind in types if name in kind.short_names]:
                self._warn_if_ambiguous(name, shortened)
                return shortened[0]
        return None

    def _warn_if_ambiguous(self, name: str, types: list[ResourceType]) -> None:
        for next_type in types[1:]:
            text = f'short name "{name}" could also match lower priority resource {next_type.group_resource}'
            if next_type.group_resource != types[0].group_resource and text not in self._warnings:
                self._warnings.add(text)
                click.echo(f"Warning: {text}", err=True)

    def _find_kind(self, word: str) -> ResourceType | None:
        name, _, suffix = word.partition(".")
        version, _, group = suffix.partition(".")
        for resource in self.list_all():
            is_exact = suffix and (resource.version, resource.group) == (version, group)
            if resource.kind == name and (is_exact or resource.group == suffix):
                return resource
        return None

    def _discover(self) -> Iterator[ResourceType]:
        for path in ("/api", "/apis"):
            try:
                document = self._session.get(path, accept=_AGGREGATED)
            except ServerError as error:
                if path == "/api" and error.error.code == 404:
                    continue
                raise
            if document.get("kind") == "APIGroupDiscoveryList":
                yield from self._parse_aggregated_discovery(document)
            else:
                yield from self._discover_all_versions(document)

    def _parse_aggregated_discovery(self, document: Mapping[str, Any]) -> Iterator[ResourceType]:
        for group in document.get("items") or ():
            name = (group.get("metadata") or {}).get("name", "")
            for version in group.get("versions") or ():
                if version.get("freshness", "Current") not in ("", "Current"):
                    self.failed_groups[f"{name}/{version['version']}".lstrip("/")] = "stale GroupVersion discovery"
                for row in version.get("resources") or ():
                    yield _parse_aggregated_type(name, version["version"], row)

    def _discover_all_versions(self, document: Mapping[str, Any]) -> Iterator[ResourceType]:
        """Discover with one request per version, for servers without aggregated discovery."""
        for version in document.get("versions") or ():
            yield from self._discover_version("", version)
        for group in document.get("groups") or ():
            preferred = (group.get("preferredVersion") or {}).get("version", "")
            versions = [entry["version"] for entry in group.get("versions") or ()]
            for version in sorted(versions, key=lambda name: name != preferred):
                yield from self._discover_version(group["name"], version)

    def _discover_version(self, group: str, version: str) -> Iterator[ResourceType]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            rows = self._session.get(path).get("resources") or ()
        except ServerError as error:
            self.failed_groups[f"{group}/{version}".lstrip("/")] = error.text_in_list
            return
        for row in rows:
            if "/" not in row["name"]:
                yield _parse_listed_type(group, version, row, rows)


def _parse_aggregated_type(group: str, version: str, row: Mapping[str, Any]) -> ResourceType:
    kind = (row.get("responseKind") or {}).get("kind", "")
    return ResourceType(
        group,
        version,
        row["resource"],
        row.get("singularResource") or "",
        kind,
        row.get("scope") == "Namespaced",
        tuple(row.get("shortNames") or ()),
        tuple(row.get("categories") or ()),
        tuple(row.get("verbs") or ()),
        tuple(part["subresource"] for part in row.get("subresources") or ()),
    )


def _parse_listed_type(
    group: str, version: str, row: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> ResourceType:
    prefix = row["name"] + "/"
    return ResourceType(
        group,
        version,
        row["name"],
        row.get("singularName") or "",
        row["kind"],
        bool(row.get("namespaced")),
        tuple(row.get("shortNames") or ()),
        tuple(row.get("categories") or ()),
        tuple(row.get("verbs") or ()),
        tuple(subrow["name"].removeprefix(prefix) for subrow in rows if subrow["name"].startswith(prefix)),
    )
