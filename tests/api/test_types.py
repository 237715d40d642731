"""The generated types: up to date, consistent with the schemas, and lossless."""

import importlib
import importlib.util
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api import types
from sampan.api.codec import careful, parsed
from sampan.api.codec import json as codec
from sampan.api.schema import schemas
from sampan.api.types.base import Object, Struct
from tests.api.schema_values import values

MODULES = sorted(module.name for module in pkgutil.iter_modules(types.__path__) if module.name != "base")


def all_types() -> list[type[Struct]]:
    modules = [importlib.import_module(f"sampan.api.types.{name}") for name in MODULES]
    return [value for module in modules for value in vars(module).values() if _is_defined_in(module, value)]


def _is_defined_in(module: ModuleType, value: object) -> TypeGuard[type[Struct]]:
    return isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__


TYPES = all_types()
KINDS = [type_ for type_ in TYPES if issubclass(type_, Object)]


def test_generated_files_are_up_to_date(reference_dir: Path, repository: Path) -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        pytest.skip("kubernetes-validate, which the generator reads, is not installed")
    check = [sys.executable, str(repository / "tools/apigen/generate.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun tools/apigen/generate.py"


def test_there_is_a_type_for_every_definition() -> None:
    assert len(TYPES) == len({f"{type_.__module__}.{type_.__name__}" for type_ in TYPES}) == 901
    assert len(KINDS) == 220


@pytest.mark.parametrize("name", MODULES)
def test_fields_are_those_of_the_schema_in_the_same_order(name: str) -> None:
    for type_ in TYPES:
        if type_.__module__.endswith(f".{name}"):
            assert type_.__struct_encode_fields__ == tuple(schemas.schema_of(type_).properties), type_


def test_empty_object_of_every_type_round_trips() -> None:
    for type_ in TYPES:
        body = codec.encode(type_())
        assert codec.decode(body, type_) == (type_(), []), type_


def test_encoded_kinds_start_with_kind_and_api_version() -> None:
    for type_ in KINDS:
        body = codec.encode(type_())
        assert body.startswith(f'{{"kind":"{type_.__name__}","apiVersion":"'.encode()), type_


def test_lists_always_encode_items() -> None:
    for type_ in KINDS:
        if type_.__name__.endswith("List"):
            assert json.loads(codec.encode(type_()))["items"] is None
            assert json.loads(codec.encode(type_(items=[])))["items"] == []  # type: ignore[call-arg]


@settings(max_examples=300)
@given(st.data())
def test_values_round_trip_with_fast_and_careful_decoding(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(KINDS))
    value: dict[str, Any] = data.draw(values(schemas.schema_of(type_)))
    body = json.dumps(value, separators=(",", ":")).encode()
    obj, strict = codec.decode(body, type_)
    assert strict == []
    assert codec.decode(codec.encode(obj), type_) == (obj, [])
    careful_value, _ = careful.decode(parsed.parse(body), schemas.schema_of(type_))
    assert codec.convert(careful_value, type_) == obj
    assert _contains(json.loads(codec.encode(obj)), value)


def _contains(encoded: Any, value: Any) -> bool:
    """Return whether `encoded` contains all of a value, except empty maps and lists."""
    if isinstance(value, dict):
        if not isinstance(encoded, dict):
            return False
        return all(_contains(encoded.get(key), item) for key, item in value.items() if item not in ({}, []))
    if isinstance(value, list):
        return isinstance(encoded, list) and len(encoded) == len(value) and all(map(_contains, encoded, value))
    return bool(encoded == value)


def test_types_are_not_tracked_by_the_garbage_collector() -> None:
    assert all(type_.__struct_config__.gc is False for type_ in TYPES)
    assert all(type_.__struct_config__.forbid_unknown_fields for type_ in TYPES)


def test_import_of_a_group_does_not_import_other_groups() -> None:
    code = "import sys, sampan.api.types.apps_v1; print([m for m in sys.modules if m.startswith('sampan.api.types.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in json.loads(done.stdout.replace("'", '"'))}
    assert loaded == {"apps_v1", "base", "core_v1", "meta_v1"}


def test_managed_fields_are_kept_as_raw_json() -> None:
    fields = b'{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}'
    entry = importlib.import_module("sampan.api.types.meta_v1").ManagedFieldsEntry
    managed_fields = codec.read(b'{"manager":"m","fieldsV1":' + fields + b"}", entry)
    assert bytes(managed_fields.fieldsV1) == fields
    assert codec.encode(managed_fields) == b'{"manager":"m","fieldsV1":' + fields + b"}"
    assert msgspec.json.decode(codec.encode(entry())) == {}
