"""PATCH: which kind of patch, checked first, applied to an object's JSON value, told in the real server's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sampan.api.codec import json as json_codec
from sampan.api.schema import Schema
from sampan.apiserver.call import Call
from sampan.machinery import errors, patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"
APPLY_CBOR = "application/apply-patch+cbor"

Apply = Callable[[dict[str, Any]], dict[str, Any]]


def patch_type(call: Call, *, is_custom: bool) -> str:
    media = call.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    known = {JSON_PATCH, MERGE_PATCH, APPLY_YAML} | (set() if is_custom else {STRATEGIC_PATCH})
    if media not in known:
        raise errors.generic(415, "415: Unsupported Media Type")
    return media


def read_patch(media: str, body: bytes, schema: Schema) -> tuple[Apply, list[str]]:
    """How to apply the patch, and the duplicate or unknown parts of the patch itself."""
    try:
        value, duplicates = json_codec.decode_any(body)
    except json_codec.DecodeError as fault:
        raise errors.bad_request(f"error decoding patch: {fault}") from None
    try:
        if media == JSON_PATCH:
            operations = patch.check_json_patch(value)
            found = patch.unknown_parts(operations) + duplicates
            return lambda current: patch.apply_json_patch(current, operations), found
        if media == MERGE_PATCH:
            merge = patch.check_merge_patch(value)
            return lambda current: patch.apply_merge_patch(current, merge), duplicates
        strategic = patch.check_strategic_patch(value)
        return lambda current: patch.apply_strategic_patch(current, strategic, schema), duplicates
    except patch.PatchError as fault:
        raise fault.as_api_error() from None
