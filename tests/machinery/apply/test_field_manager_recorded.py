"""Random writes of one kind in two versions, compared with the results of the real field manager.

The inputs were generated at random for Sampan; the results come from k8s.io/apimachinery v0.36.4 with
structured-merge-diff v6.3.3.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery import errors
from sampan.machinery.apply import ExcludedFieldsFilter
from tests.machinery.apply.widgets import NOW, Forms, make_field_manager

_RECORDED = msgspec.json.decode((Path(__file__).parent / "data" / "real_writes.json").read_bytes())
FORMS = Forms(_RECORDED["schemas"], {"v1": "str", "v2": "text"})
IGNORED = {"": ExcludedFieldsFilter("status"), "status": ExcludedFieldsFilter("spec", "metadata.labels")}


@pytest.mark.parametrize("index", range(len(_RECORDED["writes"])))
def test_write_has_the_same_result_as_on_the_real_server(index: int) -> None:
    write = _RECORDED["writes"][index]
    assert _compute_result(write) == write["want"]


def _compute_result(write: dict[str, Any]) -> dict[str, Any]:
    subresource = write.get("subresource", "")
    version = write["apiVersion"].rpartition("/")[2]
    fields = make_field_manager(FORMS, version=version, subresource=subresource, ignored=IGNORED[subresource])
    live, kept = _split_managed_fields(write.get("live"))
    manager, new = write["manager"], write["new"]
    try:
        if write["op"] == "apply":
            value, entries = fields.apply(live, new, kept, manager=manager, force=write.get("force", False), now=NOW)
            value = value if value is not None else live
        else:
            value, sent = _split_managed_fields(new)
            assert value is not None
            if live is None:
                entries = fields.create(value, sent, manager=manager, now=NOW)
            else:
                entries = fields.update(live, value, kept, sent, is_reset=False, manager=manager, now=NOW)
    except errors.ApiError as error:
        return {"error": error.message}
    assert value is not None
    return {"object": _with_managed_fields(value, entries)}


def _split_managed_fields(obj: dict[str, Any] | None) -> tuple[dict[str, Any] | None, list[ManagedFieldsEntry]]:
    if obj is None:
        return None, []
    meta = dict(obj.get("metadata") or {})
    entries = msgspec.json.encode(meta.pop("managedFields", []))
    return {**obj, "metadata": meta}, msgspec.json.decode(entries, type=list[ManagedFieldsEntry], dec_hook=_keep_value)


def _keep_value(kind: type, value: Any) -> Any:
    return value


def _with_managed_fields(value: dict[str, Any], entries: list[ManagedFieldsEntry]) -> dict[str, Any]:
    decoded = msgspec.json.decode(msgspec.json.encode(entries))
    return {**value, "metadata": {**(value.get("metadata") or {}), **({"managedFields": decoded} if decoded else {})}}
