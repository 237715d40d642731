"""Objects as YAML, and the difference that a manifest would make, by a dry run of the API server."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.dashboard.pass_through import check_path
from sampan.dashboard.request_checks import read_json_body
from sampan.dashboard.responses import json_response
from sampan.dashboard.views.api_reader import ApiReader, decode, object_path
from sampan.dashboard.yaml_text import from_yaml, to_yaml
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.transport import Request
from sampan.machinery.client.user_api import UserApi

FIELD_MANAGER = "sampan-dashboard"
_MANIFEST_BYTES = 1 << 20
_DOCUMENTS = 50
_DOCUMENT_END = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
_APPLY, _JSON = "application/apply-patch+yaml", "application/json"


class DiffRequest(msgspec.Struct):
    manifest: str
    namespace: str = "default"
    """The namespace of objects whose manifest has none."""
    mode: str = "apply"
    """`apply` compares with a server-side apply; `replace` with a replacement of the whole object."""


_decode_diff = msgspec.json.Decoder(DiffRequest).decode


async def yaml_of_object(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    """Return the object at a Kubernetes path as YAML, and its managed fields separately."""
    path = request.query.get("path", "")
    if not path.startswith(("/api/", "/apis/")) or "?" in path:
        raise errors.bad_request("path: the path of an object is required")
    check_path(path)
    value = await ApiReader(api).read(path)
    managed = (value.get("metadata") or {}).pop("managedFields", None) if isinstance(value, dict) else None
    text = await to_yaml(value)
    return json_response({"yaml": text, "managedFields": await to_yaml(managed) if managed else ""})


async def diff(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    body = await read_json_body(request, _MANIFEST_BYTES * 2)
    try:
        message = _decode_diff(body)
    except JSON_ERRORS as error:
        raise errors.bad_request(f"the body is not a request for a diff: {error}") from None
    if len(message.manifest) > _MANIFEST_BYTES:
        raise errors.request_entity_too_large(f"limit is {_MANIFEST_BYTES}")
    if message.mode not in ("apply", "replace"):
        raise errors.bad_request(f"mode: there is no {message.mode[:64]!r}; supported: apply, replace")
    values = [value for value in await read_documents(message.manifest) if value is not None]
    reader = ApiReader(api)
    return json_response({"objects": [await _diff_object(reader, value, message) for value in values]})


async def read_documents(text: str) -> list[Any]:
    """Return the values of the documents in a YAML text."""
    documents = [part for part in _DOCUMENT_END.split(text) if part.strip()]
    if len(documents) > _DOCUMENTS:
        raise errors.bad_request(f"the manifest has more than {_DOCUMENTS} documents")
    try:
        return [await from_yaml(part) for part in documents]
    except ValueError as error:
        raise errors.bad_request(f"the manifest is not valid YAML: {error}") from None


async def _diff_object(reader: ApiReader, value: Any, message: DiffRequest) -> dict[str, Any]:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(metadata, dict):
        return _failure("", errors.bad_request("a document of the manifest is not an object"))
    api_version, kind, name = (
        str(value.get("apiVersion", "")),
        str(value.get("kind", "")),
        str(metadata.get("name", "")),
    )
    title = f"{kind}/{name or metadata.get('generateName', '')}"
    try:
        resource = await reader.resource(api_version, kind)
        if resource is None:
            raise errors.not_found(kind, api_version)
        namespace = str(metadata.get("namespace") or message.namespace) if resource.get("namespaced") else ""
        path = object_path(api_version, resource, namespace, name)
        check_path(path)
        title = f"{resource['name']}/{namespace}/{name}" if namespace else f"{resource['name']}/{name}"
        live = await reader.get(path) if name else None
        merged, warnings = await _dry_run(reader.api, path, value, name, live is not None, message.mode)
    except errors.ApiError as error:
        return _failure(title, error)
    before, after = _without_managed_fields(live), _without_managed_fields(merged)
    status = "created" if live is None else "unchanged" if _content(before) == _content(after) else "changed"
    return {
        "key": title,
        "path": path,
        "live": await to_yaml(before) if live is not None else "",
        "merged": await to_yaml(after),
        "status": status,
        "warnings": warnings,
    }


async def _dry_run(
    api: UserApi, path: str, value: dict[str, Any], name: str, is_there: bool, mode: str
) -> tuple[Any, list[str]]:
    query = [("dryRun", "All"), ("fieldManager", FIELD_MANAGER), ("fieldValidation", "Strict")]
    body = msgspec.json.encode(value)
    if not name:
        method, media_type = "POST", _JSON
    elif mode == "replace" and is_there:
        method, media_type = "PUT", _JSON
    else:
        method, media_type = "PATCH", _APPLY
        query.append(("force", "true"))
    request = Request(
        method=method, path=path, query=query, headers={"Content-Type": media_type, "Accept": _JSON}, body=body
    )
    response = await api.send(request)
    return decode(response.body()), list(response.warnings)


def _failure(title: str, error: errors.ApiError) -> dict[str, Any]:
    return {"key": title, "path": "", "live": "", "merged": "", "status": "error", "error": error.status}


def _without_managed_fields(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return value
    return {**value, "metadata": {key: part for key, part in value["metadata"].items() if key != "managedFields"}}


def _content(value: Any) -> Any:
    """Return an object without the resource version and the generation, which every write changes."""
    if not isinstance(value, dict):
        return value
    metadata = {key: part for key, part in value["metadata"].items() if key not in ("resourceVersion", "generation")}
    return {**value, "metadata": metadata}
