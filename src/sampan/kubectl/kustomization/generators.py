"""Generators of ConfigMaps and Secrets, and the hash in their names (kustomize's internal/generators and hasher)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization.loader import KustomizationLoader
from sampan.kubectl.kustomization.resource import KustomizeResource

Value = dict[str, Any]
_LETTERS = str.maketrans("013ae", "ghkmt")


def generate(
    kind: str, arguments: Mapping[str, Any], options: Mapping[str, Any], loader: KustomizationLoader
) -> KustomizeResource:
    """Return the ConfigMap or Secret of a generator."""
    name = str(arguments.get("name") or "")
    if not name:
        raise KubectlError("a configmap must have a name")
    own = _merge_options(options, arguments.get("options") or {})
    metadata: Value = {"name": name}
    if arguments.get("namespace"):
        metadata["namespace"] = arguments["namespace"]
    for field in ("labels", "annotations"):
        if own.get(field):
            metadata[field] = {key: str(value) for key, value in own[field].items()}
    value: Value = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    data: dict[str, bytes] = {}
    for key, content in _pairs(arguments, loader):
        if key in data:
            raise KubectlError(f"configmap {name} illegally repeats the key `{key}`")
        data[key] = content
    if kind == "Secret":
        value["type"] = arguments.get("type") or "Opaque"
        if data:
            value["data"] = {key: base64.b64encode(content).decode() for key, content in data.items()}
    else:
        _set_config_data(value, data)
    if own.get("immutable"):
        value["immutable"] = True
    return KustomizeResource(
        value,
        needs_hash=not own.get("disableNameSuffixHash"),
        behavior=str(arguments.get("behavior") or "create"),
        scopes=[str(loader.directory)],
    )


def _merge_options(shared: Mapping[str, Any], own: Mapping[str, Any]) -> Value:
    merged: Value = {**shared, **own}
    for field in ("labels", "annotations"):
        merged[field] = {**(shared.get(field) or {}), **(own.get(field) or {})}
    merged["disableNameSuffixHash"] = bool(shared.get("disableNameSuffixHash") or own.get("disableNameSuffixHash"))
    merged["immutable"] = bool(shared.get("immutable") or own.get("immutable"))
    return merged


def _set_config_data(value: Value, data: Mapping[str, bytes]) -> None:
    texts, binaries = {}, {}
    for key, content in data.items():
        try:
            texts[key] = content.decode()
        except UnicodeDecodeError:
            binaries[key] = base64.b64encode(content).decode()
    if texts:
        value["data"] = texts
    if binaries:
        value["binaryData"] = binaries


def _pairs(arguments: Mapping[str, Any], loader: KustomizationLoader) -> Iterator[tuple[str, bytes]]:
    environments = [*(arguments.get("envs") or ()), *([arguments["env"]] if arguments.get("env") else [])]
    for name in environments:
        yield from _environment_pairs(loader.read(name))
    for literal in arguments.get("literals") or ():
        key, equals, text = str(literal).partition("=")
        if not equals or not key:
            raise KubectlError(f"invalid literal source {literal}, expected key=value")
        yield key, _unquote(text).encode()
    for source in arguments.get("files") or ():
        key, path = _file_source(str(source))
        yield key, loader.read(path)


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text


def _file_source(source: str) -> tuple[str, str]:
    count = source.count("=")
    if not count:
        return os.path.basename(source), source
    key, _, path = source.partition("=")
    if count > 1:
        raise KubectlError(f"source \"{source}\" key name or file path contains '='")
    if not key:
        raise KubectlError(f'missing key name for file path "{path}" in source "{source}"')
    if not path:
        raise KubectlError(f'missing file path for key name "{key}" in source "{source}"')
    return key, path


def _environment_pairs(data: bytes) -> Iterator[tuple[str, bytes]]:
    for line in data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").splitlines():
        text = line.lstrip()
        if not text or text.startswith("#"):
            continue
        key, equals, value = text.partition("=")
        yield key, (value if equals else os.environ.get(key, "")).encode()


# -- hash ------------------------------------------------------------------------------------------------------------


def name_hash(value: Mapping[str, Any]) -> str:
    """Return the hash of the content of an object, which is added to its name."""
    kind = value.get("kind")
    # kustomize intends to hash the name too, but looks it up under a wrong key: the hash is that of an empty name.
    content: Value = {"kind": kind, "name": "", "data": value.get("data") or ""}
    if kind == "ConfigMap":
        if value.get("binaryData"):
            content["binaryData"] = value["binaryData"]
    elif kind == "Secret":
        content["type"] = value.get("type", "")
        if value.get("stringData"):
            content["stringData"] = value["stringData"]
    else:
        content = dict(value)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return hashlib.sha256(text.encode()).hexdigest()[:10].translate(_LETTERS)
