"""Webhook configurations and admission policies from a directory of manifests, which cannot be changed through the API.

The objects are validated and defaulted as those that users create. The counterparts are
`k8s.io/apiserver/pkg/admission/plugin/manifest` and the loaders of webhooks and policies.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.registry.admission_configs.reserved_names import GATE, SUFFIX
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.apiserver.request.negotiation import JSON
from sampan.apiserver.response.responses import ApiResponse, ObjectResponse
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.config_file import ConfigFileError, decode_config, read_config_bytes

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry

log = logging.getLogger(__name__)

_DRY_RUN_SUFFIX: Final = ".static-manifest.k8s.io"
"""Replaces the suffix in the dry run that validates an object, because the API reserves the real one."""
_GROUP, _VERSION = "admissionregistration.k8s.io", "v1"
_GROUP_VERSION: Final = f"{_GROUP}/{_VERSION}"
_EXTENSIONS: Final = frozenset({".yaml", ".yml", ".json"})
_INTERVAL_S: Final = 10.0
_SYSTEM: Final = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))

Files = Mapping[Path, bytes]
Serve = Callable[[Call], Awaitable[ApiResponse]]
"""Serves a request of the server itself."""


class StaticManifests:
    """The objects of certain kinds in the manifests of a directory."""

    def __init__(self, directory: Path, kinds: Sequence[str]) -> None:
        self._directory, self._kinds = directory, tuple(kinds)
        self._objects: dict[str, list[Any]] = {}
        self._files: Files = {}
        self.generation = 0
        """Increases whenever the objects have changed."""

    def objects(self, kind: str) -> Sequence[Any]:
        """Return the objects of a kind, ordered by name, shared and read-only."""
        return self._objects.get(kind, ())

    async def load(self, registry: Registry, serve: Serve) -> None:
        """Replace the objects by those in the files. Raise ConfigurationError if any of them is invalid."""
        await self._use(_read_files(self._directory), registry, serve)

    async def run(self, registry: Registry, serve: Serve, clock: Clock) -> None:
        """Reload the files whenever they change. The previous objects remain in use while a file is invalid."""
        while True:
            await clock.sleep(_INTERVAL_S)
            try:
                files = _read_files(self._directory)
                if files == self._files:
                    continue
                self._files = files
                await self._use(files, registry, serve)
            except ConfigurationError as error:
                log.error("cannot reload %s, keeping the previous objects: %s", self._directory, error)
            else:
                log.info("reloaded the manifests in %s", self._directory)

    async def _use(self, files: Files, registry: Registry, serve: Serve) -> None:
        objects: dict[str, list[Any]] = {}
        names: dict[tuple[str, str], Path] = {}
        for path, value in _manifests(files):
            try:
                kind = self._kind_of(value)
                name = _name_of(value, kind, path, names)
                _check_references(value, kind, name)
                objects.setdefault(kind, []).append(await _validate(value, name, kind, registry, serve))
            except (ConfigurationError, errors.ApiError) as error:
                raise ConfigurationError(f"error loading {path}: {error}") from None
        _check_bindings(objects)
        for unsorted in objects.values():
            unsorted.sort(key=lambda obj: obj.metadata.name)
        self._objects, self._files = objects, files
        self.generation += 1

    def _kind_of(self, value: Mapping[str, Any]) -> str:
        kind = value.get("kind")
        if value.get("apiVersion") != _GROUP_VERSION or kind not in self._kinds:
            raise ConfigurationError(f"unsupported resource type {value.get('apiVersion')}, Kind={kind}")
        return str(kind)


def static_manifests(
    config: Mapping[str, Any], form: str, kinds: Sequence[str], *, is_enabled: bool
) -> StaticManifests | None:
    """Return the manifests that the configuration of a plugin names, None if it names no directory. `form` is the kind
    of the configuration. Raise ConfigurationError for an invalid configuration."""
    if config.get("kind") != form:
        raise ConfigurationError(f"kind must be {form}")
    for field in config.keys() - {"apiVersion", "kind", "staticManifestsDir"}:
        raise ConfigurationError(f"{field}: is not supported")
    text = config.get("staticManifestsDir")
    if not text:
        return None
    start, directory = "staticManifestsDir:", Path(str(text))
    if not is_enabled:
        raise ConfigurationError(
            f"{start} Forbidden: staticManifestsDir requires the {GATE} feature gate to be enabled"
        )
    if not directory.is_absolute():
        raise ConfigurationError(f"{start} Invalid value: {gotext.quote(str(text))}: must be an absolute file path")
    if not directory.is_dir():
        raise ConfigurationError(f"{start} Invalid value: {gotext.quote(str(text))}: must be a directory")
    return StaticManifests(directory, kinds)


def _read_files(directory: Path) -> Files:
    """Return the contents of the manifests of a directory, ordered by name."""
    files: dict[Path, bytes] = {}
    size = 0
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix.lower() in _EXTENSIONS and path.is_file())
    except OSError as error:
        raise ConfigurationError(f"failed to read manifest directory {directory}: {error.strerror}") from None
    for path in paths:
        try:
            files[path] = read_config_bytes(path)
        except ConfigFileError as error:
            raise ConfigurationError(f"failed to read file {path}: {error}") from None
        size += len(files[path])
        if size > limits.STATIC_MANIFESTS_BYTES:
            raise ConfigurationError(f"the manifests are larger than {limits.STATIC_MANIFESTS_BYTES} bytes")
    return files


def _manifests(files: Files) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the objects in the documents of all files; the entries of a list are objects of their own."""
    count = 0
    for path, content in files.items():
        for document in _split_documents(content):
            try:
                value = decode_config(document)
            except ConfigFileError as error:
                raise ConfigurationError(f"error loading {path}: {error}") from None
            for entry in _entries(value):
                count += 1
                if count > limits.STATIC_MANIFESTS:
                    raise ConfigurationError(f"there are more than {limits.STATIC_MANIFESTS} objects")
                if not isinstance(entry, Mapping):
                    raise ConfigurationError(f"error loading {path}: is not an object")
                yield path, entry


def _split_documents(content: bytes) -> Iterator[bytes]:
    lines: list[bytes] = []
    for line in (*content.splitlines(keepends=True), b"---"):
        if line.startswith(b"---") and not line[3:].strip():
            if document := b"".join(lines).strip():
                yield document
            lines = []
        else:
            lines.append(line)


def _entries(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping) and str(value.get("kind", "")).endswith("List"):
        title = {"apiVersion": value.get("apiVersion"), "kind": str(value["kind"]).removesuffix("List")}
        items = value.get("items")
        entries = items if isinstance(items, list) else []
        return [{**title, **entry} if isinstance(entry, Mapping) else entry for entry in entries]
    return [value]


def _name_of(value: Mapping[str, Any], kind: str, path: Path, names: dict[tuple[str, str], Path]) -> str:
    """Return the name of an object, and record it. No two objects of a kind have the same name."""
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"resource in file {gotext.quote(str(path))} must have a name")
    start = f"{gotext.quote(name)} in file {gotext.quote(str(path))}"
    if not name.endswith(SUFFIX):
        raise ConfigurationError(f"{start} must have a name ending with {gotext.quote(SUFFIX)}")
    if (previous := names.get((kind, name))) is not None:
        text = f"duplicate name {gotext.quote(name)} found in file {gotext.quote(str(path))}"
        raise ConfigurationError(f"{text} (previously seen in {gotext.quote(str(previous))})")
    names[kind, name] = path
    return name


def _check_references(value: Mapping[str, Any], kind: str, name: str) -> None:
    """Raise ConfigurationError for references to objects of the API, on which manifests must not depend."""
    for hook in value.get("webhooks") or ():
        client = hook.get("clientConfig") or {} if isinstance(hook, Mapping) else {}
        title = f"webhook {gotext.quote(str(hook.get('name', '')))} in {gotext.quote(name)}" if client else ""
        if client.get("service") is not None:
            text = "clientConfig.service is not supported for static manifests; use clientConfig.url instead"
            raise ConfigurationError(f"{title}: {text}")
    spec = value.get("spec") or {}
    if spec.get("paramKind") is not None:
        raise ConfigurationError(f"{kind} {gotext.quote(name)}: spec.paramKind is not supported for static manifests")
    if not kind.endswith("Binding"):
        return
    policy, start = str(spec.get("policyName") or ""), f"binding {gotext.quote(name)}"
    if not policy:
        raise ConfigurationError(f"{start} must reference a policy (spec.policyName)")
    if not policy.endswith(SUFFIX):
        text = f"spec.policyName {gotext.quote(policy)} must end with {gotext.quote(SUFFIX)}"
        raise ConfigurationError(f"{start}: {text}")
    if spec.get("paramRef") is not None:
        raise ConfigurationError(f"{start}: spec.paramRef is not supported for static manifests")


def _check_bindings(objects: Mapping[str, Sequence[Any]]) -> None:
    """Raise ConfigurationError for a binding whose policy is not in the manifests."""
    for kind, bindings in objects.items():
        if not kind.endswith("Binding"):
            continue
        policies = {policy.metadata.name for policy in objects.get(kind.removesuffix("Binding"), ())}
        for binding in bindings:
            if binding.spec.policyName not in policies:
                policy = gotext.quote(binding.spec.policyName)
                text = f"references policy {policy} which does not exist in the manifest directory"
                raise ConfigurationError(f"binding {gotext.quote(binding.metadata.name)} {text}")


async def _validate(value: Mapping[str, Any], name: str, kind: str, registry: Registry, serve: Serve) -> Any:
    """Return the object with its defaults. It is created in a dry run, under another name."""
    resource = registry.scheme.find_by_kind(_GROUP, _VERSION, kind)
    if resource is None:
        raise ConfigurationError(f"{kind} of {_GROUP_VERSION} is not served")
    other_name = name.removesuffix(SUFFIX) + _DRY_RUN_SUFFIX
    body = msgspec.json.encode({**value, "metadata": {**value["metadata"], "name": other_name}})
    call = Call(
        method="POST",
        path=f"/apis/{_GROUP_VERSION}/{resource.plural}",
        query=Query("dryRun=All&fieldValidation=Strict"),
        headers={"Content-Type": JSON, "User-Agent": "kube-apiserver"},
        body=body,
        user=_SYSTEM,
    )
    try:
        response = await serve(call)
    except errors.ApiError as error:
        raise ConfigurationError(error.message.replace(other_name, name)) from None
    assert isinstance(response, ObjectResponse)
    obj = registry.codec_of(resource).decode(response.raw)
    obj.metadata.name = name
    return obj
