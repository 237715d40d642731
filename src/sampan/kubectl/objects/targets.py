"""The resources that a command line selects: types and names, files, selectors (`cli-runtime/pkg/resource.Builder`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.client.resource_types import ResourceTypes, UnknownResourceType
from sampan.kubectl.client.session import JSON, ConnectionFailure, Session
from sampan.kubectl.command_line.shared_flags import FilenameOptions
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.manifests import SKIP_VALIDATION_ADVICE, ManifestObject, manifest_objects, manifest_sources
from sampan.machinery.cli_errors import CliError

if TYPE_CHECKING:
    from sampan.kubectl.client.factory import Factory

MISSING_RESOURCE = """\
You must provide one or more resources by argument or filename.
Example resource specifications include:
   '-f rsrc.yaml'
   '--filename=rsrc.json'
   '<resource> <name>'
   '<resource>'"""
LOCAL_WITHOUT_FILES_MESSAGE = """\
error: you must specify resources by --filename when --local is set.
Example resource specifications include:
   '-f rsrc.yaml'
   '--filename=rsrc.json'"""
_SEPARATE = (
    "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form "
    "(e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource resource/<resource_name>'"
)


@dataclass(slots=True)
class ResourceInfo:
    """An object that a command works on, from a file or from the server."""

    kind: ResourceType
    namespace: str
    name: str
    value: dict[str, Any] = field(default_factory=dict)
    """The object; empty if it has not been fetched. For a request with another media type, the response: a Table."""
    source: str = ""
    """The file that contains the object; empty if the command line names it."""
    subresource: str = ""

    @property
    def path(self) -> str:
        path = self.kind.object(self.namespace, self.name)
        return f"{path}/{self.subresource}" if self.subresource else path

    @property
    def collection(self) -> str:
        return self.kind.collection(self.namespace)

    @property
    def qualified_name(self) -> str:
        """The object as messages show it: pod/web, deployment.apps/web."""
        return f"{self.kind.qualified}/{self.name}"

    def fetch(self, session: Session, query: Mapping[str, str] | None = None, *, accept: str = JSON) -> None:
        """Set the value to the object on the server. If it is missing because its namespace is, the error says so."""
        if not self.name:
            raise KubectlError("resource name may not be empty")
        try:
            self.value = session.get(self.path, query, accept=accept)
        except ServerError as error:
            if error.is_not_found and self.namespace not in ("", "default"):
                try:
                    session.get(f"/api/v1/namespaces/{self.namespace}")
                except ServerError as missing:
                    if missing.is_not_found:
                        raise missing from None
            raise error from None


@dataclass(frozen=True, slots=True)
class ResourceTarget:
    """A resource type of the command line with the names of objects; without names, all of its objects."""

    kind: ResourceType
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSelection:
    """The objects that the words and selectors of a command line select."""

    words: Sequence[str] = ()
    selector: str = ""
    field_selector: str = ""
    selects_all: bool = False
    """Whether all objects of the types are selected, as by --all."""
    allows_all: bool = False
    """Whether a type alone stands for all its objects."""
    all_namespaces: bool = False
    is_single_type: bool = False
    """Whether more than one type is an error."""
    subresource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSource:
    """The objects in files."""

    files: FilenameOptions = FilenameOptions()
    validates: bool = False
    """Whether apiVersion and kind are required with the error of schema validation."""
    is_local: bool = False
    """Whether the server is never contacted."""
    requires_namespace: bool | None = None
    """Whether the namespace of an object must be that of the command line. By default it must if --namespace is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFetch:
    """How objects are requested from the server."""

    fetches: bool = True
    """Whether objects named by words are requested at all."""
    fetches_latest: bool = False
    """Whether objects of files are replaced by those on the server."""
    flattens: bool = True
    """Whether the items of a list are returned rather than the list."""
    chunk_size: int = 0
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON


class ResourceBuilder:
    """Finds the resources of a command line."""

    def __init__(
        self,
        factory: Factory,
        selection: ResourceSelection = ResourceSelection(),
        source: ResourceSource = ResourceSource(),
        fetch: ResourceFetch = ResourceFetch(),
    ) -> None:
        self._factory, self._selection, self._source, self._fetch = factory, selection, source, fetch
        self._words = _combine_types_and_names(selection.words)
        self._files = source.files
        self._selector, self._field_selector = selection.selector.strip(), selection.field_selector.strip()

    @property
    def is_single_item(self) -> bool:
        """Whether the command line means one object, which is printed as itself rather than in a List."""
        if self._files:
            sources = manifest_sources(self._files) if not self._files.kustomize else [None]
            return "-" not in self._files.filenames and len(sources) == 1
        if self._is_selection():
            return False
        return len(self._words) == (1 if any("/" in word for word in self._words) else 2)

    @property
    def has_names(self) -> bool:
        """Whether the words are a type and names of its objects."""
        return not (self._files or self._is_selection()) and "/" not in self._words[0]

    def infos(self, errors: ErrorAggregate | None = None) -> Iterator[ResourceInfo]:
        """Yield the resources. With `errors`, those that cannot be read are added there and others follow."""
        self.check()
        if self._files:
            yield from self._read_files(errors)
        elif self._is_selection():
            yield from self._list_selected(errors)
        else:
            for info in self._build_named_infos():
                if not self._fetch.fetches:
                    yield info
                    continue
                try:
                    info.fetch(self._factory.session, self._fetch.query, accept=self._fetch.accept)
                except (ServerError, KubectlError) as error:
                    if errors is None:
                        raise
                    errors.add(error)
                    continue
                yield info

    def targets(self) -> list[ResourceTarget]:
        """Return the types and names of the words, without requests for objects."""
        self.check()
        if any("/" in word for word in self._words):
            return [ResourceTarget(info.kind, [info.name]) for info in self._build_named_infos()]
        return [ResourceTarget(kind, list(self._words[1:])) for kind in self._types()]

    def namespace_of(self, kind: ResourceType) -> str:
        """Return the namespace of requests for objects of a type; empty for all namespaces and for cluster-scoped
        types."""
        return "" if self._selection.all_namespaces or not kind.is_namespaced else self._factory.namespace

    # -- checks --------------------------------------------------------------------------------------------------------

    def _is_selection(self) -> bool:
        is_type_alone = len(self._words) == 1 and "/" not in self._words[0]
        return bool(
            self._selector
            or self._field_selector
            or self._selection.selects_all
            or (self._selection.allows_all and is_type_alone)
        )

    def check(self) -> None:
        """Raise KubectlError for words, files and selectors that exclude each other."""
        if self._source.is_local and not self._files:
            raise KubectlError(LOCAL_WITHOUT_FILES_MESSAGE)
        slashed = ["/" in word for word in self._words]
        if any(slashed) and not all(slashed):
            raise KubectlError(_SEPARATE)
        if self._selection.selects_all and self._selector:
            raise KubectlError("setting 'all' parameter but found a non empty selector. ")
        for word in self._words if all(slashed) else ():
            _split_name(word)
        if self._files and self._words:
            self._check_files_alone(all(slashed))
        if not (self._files or self._words or self._is_selection()):
            raise KubectlError(MISSING_RESOURCE)

    def _check_files_alone(self, has_slashes: bool) -> None:
        manifest_sources(self._files)
        if has_slashes:
            raise KubectlError("resource/name arguments cannot be provided when a path is specified")
        raise KubectlError(
            "when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well"
        )

    # -- by words ------------------------------------------------------------------------------------------------------

    def _types(self) -> list[ResourceType]:
        kinds, types = self._factory.kinds, []
        for word in dict.fromkeys(self._words[0].split(",")):
            types += kinds.list_category(word) or [kinds.find_by_name(word)]
        if len(types) > 1 and self._selection.is_single_type:
            raise KubectlError("you may only specify a single resource type")
        return list(dict.fromkeys(types))

    def _build_named_infos(self) -> list[ResourceInfo]:
        if any("/" in word for word in self._words):
            pairs = [_split_name(word) for word in self._words]
            types = {word: self._factory.kinds.find_by_name(word) for word in dict.fromkeys(word for word, _ in pairs)}
            if len(set(types.values())) > 1 and self._selection.is_single_type:
                raise KubectlError("you may only specify a single resource type")
            return [self._info(types[word], name) for word, name in pairs]
        types_of_words = self._types()
        if len(self._words) == 1:
            raise KubectlError("resource(s) were provided, but no name was specified")
        if len(types_of_words) > 1:
            raise KubectlError("you must specify only one resource")
        return [self._info(types_of_words[0], name) for name in self._words[1:]]

    def _info(self, kind: ResourceType, name: str) -> ResourceInfo:
        if kind.is_namespaced and self._selection.all_namespaces:
            raise KubectlError("a resource cannot be retrieved by name across all namespaces")
        return ResourceInfo(kind, self.namespace_of(kind), name, subresource=self._selection.subresource)

    # -- by selectors --------------------------------------------------------------------------------------------------

    def _list_selected(self, errors: ErrorAggregate | None) -> Iterator[ResourceInfo]:
        if not self._words:
            raise KubectlError("at least one resource must be specified to use a selector")
        if any("/" in word for word in self._words):
            raise KubectlError("selectors and the all flag cannot be used when passing resource/name arguments")
        if len(self._words) > 1:
            raise KubectlError("name cannot be provided when a selector is specified")
        if self._selection.subresource:
            raise KubectlError("subresource cannot be used when bulk resources are specified")
        for kind in self._types():
            if errors is None:
                yield from self._list_kind(kind)
                continue
            with errors.collect():
                yield from self._list_kind(kind)

    def _list_kind(self, kind: ResourceType) -> Iterator[ResourceInfo]:
        namespace = self.namespace_of(kind)
        query = {"labelSelector": self._selector, "fieldSelector": self._field_selector, **self._fetch.query}
        query |= {"limit": str(self._fetch.chunk_size)} if self._fetch.chunk_size > 0 else {}
        query = {key: value for key, value in query.items() if value}
        for response in list_pages(self._factory.session, kind, namespace, query, accept=self._fetch.accept):
            if response.get("kind") == "Table" or not self._fetch.flattens:
                yield ResourceInfo(kind, namespace, "", response)
                continue
            title = {"apiVersion": kind.api_version, "kind": kind.kind}
            for item in response.get("items") or ():
                metadata = item.get("metadata") or {}
                item_namespace = str(metadata.get("namespace") or "")
                yield ResourceInfo(kind, item_namespace, str(metadata.get("name") or ""), {**title, **item})

    # -- by files ------------------------------------------------------------------------------------------------------

    def _read_files(self, errors: ErrorAggregate | None) -> Iterator[ResourceInfo]:
        matches = None
        if self._selector:
            from sampan.api.selectors import labels

            try:
                matches = labels.parse(self._selector).matches
            except ValueError as error:
                raise KubectlError(f'the provided selector "{self._selector}" is not valid: {error}') from None
        for manifest in manifest_objects(self._files, validates=self._source.validates, errors=errors):
            try:
                info = self._build_manifest_info(manifest)
                if self._fetch.fetches_latest and info.name:
                    info.fetch(self._factory.session, self._fetch.query, accept=self._fetch.accept)
            except (ServerError, CliError) as error:
                if errors is None:
                    raise
                errors.add(error)
                continue
            if matches is None or matches((manifest.value.get("metadata") or {}).get("labels") or {}):
                yield info

    def _build_manifest_info(self, manifest: ManifestObject) -> ResourceInfo:
        if self._source.is_local:
            kind = local_type(manifest)
            return ResourceInfo(kind, manifest.namespace, manifest.name, manifest.value, manifest.source)
        try:
            kind = kind_for(self._factory.kinds, manifest)
        except ConnectionFailure as error:
            raise self._unreachable(error, manifest) from None
        value = dict(manifest.value)
        namespace = ""
        if kind.is_namespaced:
            namespace = self._namespace_for(manifest)
            value["metadata"] = {**(value.get("metadata") or {}), "namespace": namespace}
        elif manifest.namespace:
            value["metadata"] = {key: part for key, part in value["metadata"].items() if key != "namespace"}
        return ResourceInfo(kind, namespace, manifest.name, value, manifest.source, self._selection.subresource)

    def _unreachable(self, error: ConnectionFailure, manifest: ManifestObject) -> KubectlError:
        """Return kubectl's error for a server that cannot be reached. kubectl requests schemas or discovery first, so
        that its error names their path."""
        source = f'"{manifest.source}"'
        if not self._source.validates:
            return error.add_context(f"unable to recognize {source}", "/api?timeout=32s")
        operation = f"error validating {source}: error validating data: failed to download openapi"
        return error.add_context(operation, "/openapi/v2?timeout=32s", f"; {SKIP_VALIDATION_ADVICE}")

    def _requires_namespace(self) -> bool:
        required = self._source.requires_namespace
        return self._factory.has_namespace_flag if required is None else required

    def _namespace_for(self, manifest: ManifestObject) -> str:
        own, requested = manifest.namespace, self._factory.namespace
        if own and own != requested and self._requires_namespace():
            raise KubectlError(
                f'the namespace from the provided object "{own}" does not match the namespace "{requested}". '
                f"You must pass '--namespace={own}' to perform this operation."
            )
        return own or requested


def kind_for(kinds: ResourceTypes, manifest: ManifestObject) -> ResourceType:
    """Return the resource type of an object in a file. The error names the object and the file."""
    try:
        return kinds.find_by_kind(manifest.api_version, manifest.kind)
    except UnknownResourceType as error:
        raise KubectlError(
            f'resource mapping not found for name: "{manifest.name}" namespace: "{manifest.namespace}" '
            f'from "{manifest.source}": {error.message}\nensure CRDs are installed first'
        ) from None


def local_type(manifest: ManifestObject) -> ResourceType:
    """Return a resource type without discovery, for commands that do not contact the server."""
    group, _, version = manifest.api_version.rpartition("/")
    kind = manifest.kind
    return ResourceType(group, version, kind.lower() + "s", kind.lower(), kind, bool(manifest.namespace))


def list_pages(
    session: Session, kind: ResourceType, namespace: str, query: Mapping[str, str], *, accept: str = JSON
) -> Iterator[dict[str, Any]]:
    """Yield the pages of a list. An error includes the resource type and the selectors."""
    query = dict(query)
    while True:
        try:
            response: dict[str, Any] = session.get(kind.collection(namespace), query, accept=accept)
        except ServerError as error:
            raise _list_error(error, kind, query) from None
        yield response
        token = (response.get("metadata") or {}).get("continue")
        if not token:
            return
        query["continue"] = token


def _list_error(error: ServerError, kind: ResourceType, query: Mapping[str, str]) -> ServerError:
    if error.error.reason not in ("BadRequest", "NotFound"):
        return error
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not (labels or fields):
        return error.add_context(f'Unable to list "{kind}"')
    return error.add_context(f'Unable to find "{kind}" that match label selector "{labels}", field selector "{fields}"')


def targets(kinds: ResourceTypes, words: Sequence[str]) -> list[ResourceTarget]:
    """Parse arguments of the forms `pods`, `pod a b`, `pods,svc` and `pod/a svc/b`, for commands beside kubectl."""
    if any("/" in word for word in words):
        if not all("/" in word for word in words):
            raise KubectlError(_SEPARATE)
        return [ResourceTarget(kinds.find_by_name(kind), [name]) for kind, name in map(_split_name, words)]
    types, *names = words
    resources = [kinds.find_by_name(word) for word in types.split(",") if word]
    return [ResourceTarget(kind, list(names)) for kind in resources]


def _combine_types_and_names(words: Sequence[str]) -> list[str]:
    types = list(dict.fromkeys(words[0].split(","))) if words else []
    if len(words) < 2 or len(types) < 2:
        return list(words)
    return [f"{kind}/{name}" for kind in types for name in words[1:]]


def _split_name(word: str) -> tuple[str, str]:
    parts = word.split("/")
    if len(parts) > 2:
        raise KubectlError("arguments in resource/name form may not have more than one slash")
    if not all(parts) or len(parts) != 2 or "," in parts[0]:
        raise KubectlError("arguments in resource/name form must have a single resource and name")
    return parts[0], parts[1]
