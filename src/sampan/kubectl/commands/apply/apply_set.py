"""--applyset: a parent object records which kinds and namespaces belong to a set of objects, and --prune deletes the
members that are not among the files (`kubectl/pkg/cmd/apply/applyset.go`, KEP 3659).

The flag exists if KUBECTL_APPLYSET is `true`, as in kubectl, where it is an alpha feature.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from sampan.api.kubernetes_version import GIT_VERSION
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.object_writer import APPLY, ObjectWriter
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.machinery.cli_errors import CliError

_PREFIX = "applyset.kubernetes.io"
TOOLING = f"{_PREFIX}/tooling"
NAMESPACES = f"{_PREFIX}/additional-namespaces"
KINDS = f"{_PREFIX}/contains-group-kinds"
RESOURCES = f"{_PREFIX}/contains-group-resources"
"""The form of KINDS that old versions of kubectl wrote."""
PARENT_ID = f"{_PREFIX}/id"
PART_OF_LABEL = f"{_PREFIX}/part-of"
PARENT_TYPE = f"{_PREFIX}/is-parent-type"
_TOOL = "kubectl"
_BUILT_IN_PARENTS = (("", "v1", "secrets"), ("", "v1", "configmaps"))


def is_enabled() -> bool:
    return os.environ.get("KUBECTL_APPLYSET") == "true"


class ApplySet:
    """The ApplySet of a parent object: its kinds and namespaces before and after the objects of a command are
    applied."""

    def __init__(self, *, factory: Factory, reference: str, writer: ObjectWriter) -> None:
        """`reference` is the value of --applyset: [RESOURCE][.GROUP/]NAME."""
        self._factory, self._writer = factory, writer
        kind, name = _parent(factory, reference)
        # The namespace comes from the flag only, so that a context cannot decide which objects are deleted.
        namespace = factory.namespace if factory.has_namespace_flag and kind.is_namespaced else ""
        self._parent = ResourceInfo(kind, namespace, name)
        self._kinds: dict[str, ResourceType] = {}
        self._namespaces: set[str] = set()
        self._applied_kinds: dict[str, ResourceType] = {}
        self._applied_namespaces: set[str] = set()

    @property
    def id(self) -> str:
        parent = self._parent
        text = f"{parent.name}.{parent.namespace}.{parent.kind.kind}.{parent.kind.group}"
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        return f"applyset-{digest}-v1"

    def check_parent(self) -> None:
        """Raise KubectlError if the parent object is of a type that cannot be the parent of an ApplySet."""
        kind, problems = self._parent.kind, []
        if kind.is_namespaced and not self._parent.namespace:
            problems.append("namespace is required to use namespace-scoped ApplySet")
        if not self._is_built_in and kind.group_resource not in self._custom_parents():
            problems.append(f"resource {quote_text(str(kind))} is not permitted as an ApplySet parent")
        if problems:
            raise KubectlError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def add_labels(self, infos: Sequence[ResourceInfo]) -> None:
        """Label the objects as members of the ApplySet."""
        for info in infos:
            metadata = info.value.get("metadata") or {}
            labels = metadata.get("labels") or {}
            if PART_OF_LABEL in labels:
                raise KubectlError(f"ApplySet label {quote_text(PART_OF_LABEL)} already set in input data")
            info.value = {**info.value, "metadata": {**metadata, "labels": {**labels, PART_OF_LABEL: self.id}}}

    def begin(self, infos: Sequence[ResourceInfo]) -> None:
        """Record the current and the future kinds and namespaces of the ApplySet in its parent, so that no member is
        lost if the command is interrupted."""
        self._read_parent()
        for info in infos:
            self._applied_kinds[_group_kind(info.kind)] = info.kind
            if info.kind.is_namespaced and info.namespace:
                self._applied_namespaces.add(info.namespace)
        self._write_parent({*self._kinds, *self._applied_kinds}, self._namespaces | self._applied_namespaces)

    def prunable_objects(self, uids: set[str]) -> Iterator[ResourceInfo]:
        """Yield the members of the ApplySet whose UIDs are not in `uids`."""
        for kind in self._kinds.values():
            for namespace in sorted(self._namespaces) if kind.is_namespaced else ("",):
                query = {"labelSelector": f"{PART_OF_LABEL}={self.id}"}
                try:
                    items = self._factory.session.get(kind.collection(namespace), query).get("items") or ()
                except ServerError as error:
                    shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"
                    raise error.add_context(f"listing {shown} objects for pruning") from None
                for item in items:
                    if item["metadata"].get("uid") not in uids:
                        title = {"apiVersion": kind.api_version, "kind": kind.kind}
                        yield ResourceInfo(kind, namespace, item["metadata"]["name"], {**title, **item})

    def finish(self) -> None:
        """Record the kinds and namespaces of the applied objects in the parent, after the other members have been
        pruned."""
        try:
            self._write_parent(set(self._applied_kinds), self._applied_namespaces)
        except ServerError as error:
            raise error.add_context("apply and prune succeeded, but ApplySet update failed") from None

    # -- the parent object -------------------------------------------------------------------------------------------

    @property
    def _is_built_in(self) -> bool:
        kind = self._parent.kind
        return (kind.group, kind.version, kind.plural) in _BUILT_IN_PARENTS

    @property
    def _shown(self) -> str:
        kind = self._parent.kind
        return quote_text(f"{kind.plural}.{kind.group}/{self._parent.name}")

    def _custom_parents(self) -> set[str]:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        try:
            items = self._factory.session.get(path, {"labelSelector": PARENT_TYPE}).get("items") or ()
        except ServerError as error:
            raise error.add_context("identifying allowed custom resource parent types") from None
        return {item["metadata"]["name"] for item in items}

    def _read_parent(self) -> None:
        try:
            metadata = self._factory.session.get(self._parent.path)["metadata"]
        except ServerError as error:
            if not error.is_not_found:
                raise error.add_context(f"failed to fetch ApplySet parent object {self._shown}") from None
            if not self._is_built_in:
                raise KubectlError("custom resource ApplySet parents cannot be created automatically") from None
            return
        annotations = metadata.get("annotations") or {}
        self._check_owner(annotations, metadata.get("labels") or {})
        self._kinds = self._kinds_of(annotations)
        self._namespaces = set(filter(None, annotations.get(NAMESPACES, "").split(",")))
        self._namespaces |= {self._parent.namespace} if self._parent.kind.is_namespaced else set()

    def _check_owner(self, annotations: dict[str, str], labels: dict[str, str]) -> None:
        subject = f"ApplySet parent object {self._shown}"
        if TOOLING not in annotations:
            raise KubectlError(f"{subject} already exists and is missing required annotation {quote_text(TOOLING)}")
        tool = annotations[TOOLING].rpartition("/")[0] or annotations[TOOLING]
        if tool != _TOOL:
            managed = f"is managed by tooling {quote_text(tool)} instead of {quote_text(_TOOL)}"
            raise KubectlError(f"{subject} already exists and {managed}")
        if PARENT_ID not in labels:
            raise KubectlError(f"{subject} exists and does not have required label {PARENT_ID}")
        if labels[PARENT_ID] != self.id:
            label = f"{quote_text(PARENT_ID)} (got: {labels[PARENT_ID]}, want: {self.id})"
            raise KubectlError(f"{subject} exists and has incorrect value for label {label}")

    def _kinds_of(self, annotations: dict[str, str]) -> dict[str, ResourceType]:
        subject = f"parsing ApplySet annotation on {self._shown}"
        if KINDS not in annotations and not annotations.get(RESOURCES):
            needs = f"kubectl requires the {quote_text(KINDS)} annotation to be set on all ApplySet parent objects"
            raise KubectlError(f"{subject}: {needs}")
        key = KINDS if KINDS in annotations else RESOURCES
        kinds = {}
        for text in filter(None, annotations[key].split(",")):
            try:
                kind = self._factory.kinds.find_by_name(text) if key == RESOURCES else self._kind_of(text)
            except CliError as error:
                problem = f"could not find mapping for kind in {quote_text(key)} annotation: {error.message}"
                raise KubectlError(f"{subject}: {problem}") from None
            kinds[_group_kind(kind)] = kind
        return kinds

    def _kind_of(self, text: str) -> ResourceType:
        """Return the preferred version of a kind in the form KIND[.GROUP]."""
        name, _, group = text.partition(".")
        for _ in range(2):
            for kind in self._factory.kinds.list_all():
                if (kind.kind, kind.group) == (name, group):
                    return kind
            self._factory.kinds.discover()
        raise KubectlError(f"no matches for kind {quote_text(name)} in group {quote_text(group)}")

    def _write_parent(self, kinds: set[str], namespaces: set[str]) -> None:
        parent = self._parent
        annotations = {
            TOOLING: f"{_TOOL}/{GIT_VERSION}",
            KINDS: ",".join(sorted(kinds)),
            NAMESPACES: ",".join(sorted(namespaces - {parent.namespace})),
        }
        metadata: dict[str, Any] = {"name": parent.name, "labels": {PARENT_ID: self.id}, "annotations": annotations}
        metadata |= {"namespace": parent.namespace} if parent.namespace else {}
        value = {"apiVersion": parent.kind.api_version, "kind": parent.kind.kind, "metadata": metadata}
        if self._writer.dry_run == "client":
            return
        try:
            try:
                self._writer.patch(parent, value, APPLY, {"force": "false"})
            except ServerError as error:
                if error.error.reason != "Conflict":
                    raise
                self._writer.patch(parent, value, APPLY, {"force": "true"})
        except ServerError as error:
            raise error.add_context("failed to update ApplySet") from None


def _parent(factory: Factory, reference: str) -> tuple[ResourceType, str]:
    resource, slash, name = reference.partition("/")
    if not slash:
        resource, name = "secrets", reference
    subject = f"invalid parent reference {quote_text(reference)}"
    if not name:
        raise KubectlError(f"{subject}: name cannot be blank")
    try:
        return factory.kinds.find_by_name(resource), name
    except CliError:
        plural, _, group = resource.partition(".")
        raise KubectlError(f"{subject}: no matches for {group}/, Resource={plural}") from None


def _group_kind(kind: ResourceType) -> str:
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind
