"""The protobuf codec, compared with bodies of a real server and random objects of the Go types, and with hostile
bytes."""

import importlib.util
import json
import struct
import sys
from base64 import b64decode
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import protobuf
from sampan.api.codec.protobuf import ProtobufError, UnknownKindError
from sampan.api.codec.protobuf.field_table import table
from sampan.api.codec.protobuf.wire import encode_delimited, varint

RANDOM = Path(__file__).parents[1] / "data" / "protobuf_vectors.json"
RECORDED_AT_TWO_REVISIONS = {"APIServiceList", "PriorityClassList"}
"""Lists whose JSON and protobuf were requested at different revisions."""


def read_vectors(reference_dir: Path) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((reference_dir / "protobuf-vectors.json").read_bytes())
    return vectors


def random_objects() -> list[dict[str, Any]]:
    """One object of each kind with random content, as k8s.io/api v0.36.0 writes it in JSON and in protobuf."""
    vectors: list[dict[str, Any]] = json.loads(RANDOM.read_bytes())
    return vectors


def without_revision(vector: dict[str, Any]) -> dict[str, Any]:
    value = deepcopy(vector)
    if value["kind"] in RECORDED_AT_TWO_REVISIONS:
        for key in ("resourceVersion", "continue"):
            value["metadata"].pop(key, None)
    return value


def to_json_value(decoded: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded object without the bytes of raw JSON."""
    value: dict[str, Any] = json.loads(msgspec.json.encode(decoded))
    return value


def vector_name(vector: dict[str, Any]) -> str:
    return f"{vector['json']['apiVersion']} {vector['json']['kind']}"


class TestRecorded:
    def test_every_vector_decodes_to_its_json(self, reference_dir: Path) -> None:
        vectors = read_vectors(reference_dir)
        for vector in vectors:
            decoded = to_json_value(protobuf.decode(b64decode(vector["protobuf"])))
            assert without_revision(decoded) == without_revision(vector["json"]), vector_name(vector)
        assert len(vectors) == 159

    def test_every_vector_encodes_back(self, reference_dir: Path) -> None:
        differ = []
        for vector in read_vectors(reference_dir):
            encoded = protobuf.encode(vector["json"])
            assert to_json_value(protobuf.decode(encoded)) == vector["json"], vector_name(vector)
            if encoded != b64decode(vector["protobuf"]):
                differ.append((vector["kind"], vector["json"]["metadata"].get("name")))
        # r2 holds raw JSON with its client's spaces, which JSON values do not keep.
        assert differ == [("APIServiceList", None), ("ControllerRevision", "r2"), ("PriorityClassList", None)]


@pytest.mark.parametrize("vector", random_objects(), ids=vector_name)
def test_random_object_has_the_same_json_and_protobuf_as_with_go(vector: dict[str, Any]) -> None:
    data = b64decode(vector["protobuf"])
    assert to_json_value(protobuf.decode(data)) == vector["json"]
    assert protobuf.encode(vector["json"]) == data


def test_random_objects_cover_every_kind() -> None:
    covered = {(vector["json"]["apiVersion"], vector["json"]["kind"]) for vector in random_objects()}
    missing = {key for key in table().kinds() if not key[1].endswith("List")} - covered
    # Kinds that clients never send on their own, or that have another home version in the Go scheme.
    assert {kind for version, kind in missing if version != "meta.k8s.io/v1"} <= {"WatchEvent"}


class TestEnvelope:
    def test_kind_and_version_come_from_the_envelope(self) -> None:
        data = protobuf.wrap("v1", "Namespace", b"")
        assert protobuf.decode(data) == {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {},
            "spec": {},
            "status": {},
        }

    def test_default_kind(self) -> None:
        data = protobuf.wrap("", "", protobuf.encode_body("v1", "DeleteOptions", {"gracePeriodSeconds": 0}))
        with pytest.raises(ProtobufError, match="'Kind' is missing"):
            protobuf.decode(data)
        decoded = protobuf.decode(data, default=("v1", "DeleteOptions"))
        assert decoded == {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}

    @pytest.mark.parametrize(
        ("api_version", "kind"), [("apps/v1", "DeleteOptions"), ("v1", "Status"), ("batch/v1", "PatchOptions")]
    )
    def test_meta_kinds_belong_to_every_group(self, api_version: str, kind: str) -> None:
        assert protobuf.supports(api_version, kind)

    @pytest.mark.parametrize(
        ("api_version", "kind"),
        [("example.com/v1", "Thing"), ("v1", "Container"), ("v1", "Table"), ("apps/v9", "Status")],
    )
    def test_kinds_without_a_protobuf_form(self, api_version: str, kind: str) -> None:
        assert not protobuf.supports(api_version, kind)
        with pytest.raises(UnknownKindError, match=kind):
            protobuf.encode({"apiVersion": api_version, "kind": kind})
        with pytest.raises(UnknownKindError, match=kind):
            protobuf.decode(protobuf.wrap(api_version, kind, b""))

    def test_partial_metadata_list_of_both_versions(self) -> None:
        items = [{"metadata": {"name": "a"}}]
        for version in ("v1", "v1beta1"):
            value = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{version}", "metadata": {}}
            assert protobuf.decode(protobuf.encode(value | {"items": items})) == value | {"items": items}

    def test_list_of_mixed_objects(self) -> None:
        value = {
            "apiVersion": "v1",
            "kind": "List",
            "metadata": {},
            "items": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}},
                {"x": 1},
            ],
        }
        assert to_json_value(protobuf.decode(protobuf.encode(value))) == value

    def test_join_list_equals_encoding_the_list(self) -> None:
        pods = [{"metadata": {"name": f"p{n}"}, "spec": {"containers": None}, "status": {}} for n in range(300)]
        metadata = {"resourceVersion": "5", "remainingItemCount": 3}
        bodies = [protobuf.encode_body("v1", "Pod", pod) for pod in pods]
        whole = protobuf.encode({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": pods})
        assert protobuf.join_list("v1", "PodList", metadata, bodies) == whole


class TestWatch:
    EVENT: dict[str, Any] = {
        "type": "ADDED",
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v" * 300}},
    }

    def test_stream_of_events(self) -> None:
        stream = protobuf.frame(self.EVENT) + protobuf.frame(self.EVENT | {"type": "DELETED"})
        assert [event["type"] for event in protobuf.unframe(stream)] == ["ADDED", "DELETED"]
        assert protobuf.unframe(stream)[0] == self.EVENT

    def test_wire_format_of_an_event(self) -> None:
        obj = protobuf.encode(self.EVENT["object"])
        message = protobuf.frame(self.EVENT)
        assert struct.unpack(">I", message[:4]) == (len(message) - 4,)
        assert message[4:] == b"\x0a\x05ADDED" + encode_delimited(b"\x12", encode_delimited(b"\x0a", obj))

    def test_events_are_unframed_byte_by_byte(self) -> None:
        unframer = protobuf.Unframer()
        stream = protobuf.frame(self.EVENT) * 2
        messages = [message for byte in stream for message in unframer.feed(bytes([byte]))]
        unframer.finish()
        assert [protobuf.decode_event(message) for message in messages] == [self.EVENT] * 2

    def test_frame_size_is_limited(self) -> None:
        with pytest.raises(ProtobufError, match="larger than 10"):
            list(protobuf.Unframer(max_size=10).feed(b"\xff\xff\xff\xff"))

    def test_truncated_stream_is_an_error(self) -> None:
        with pytest.raises(ProtobufError, match="unexpected EOF"):
            protobuf.unframe(protobuf.frame(self.EVENT)[:-1])

    def test_an_event_of_a_custom_resource_is_json(self) -> None:
        data = protobuf.encode_event("ADDED", b'{"kind":"Thing"}')
        assert to_json_value(protobuf.decode_event(data)) == {"type": "ADDED", "object": {"kind": "Thing"}}


def decode_config_map(body: bytes) -> dict[str, Any]:
    return protobuf.decode(protobuf.wrap("v1", "ConfigMap", body))


MALFORMED_CONFIG_MAPS = {
    "no length": (b"\x0a", "unexpected EOF"),
    "length beyond the end": (b"\x0a\x05ab", "unexpected EOF"),
    "huge length": (b"\x0a" + varint(2**63), "unexpected EOF"),
    "endless varint": (b"\x20" + b"\xff" * 100, "integer overflow"),
    "endless tag": (b"\xff" * 100, "integer overflow"),
    "varint beyond its message": (b"\x0a\x01\x38\x01", "unexpected EOF"),
    "wrong wire type": (b"\x08\x01", "wrong wireType = 0 for field metadata"),
    "wrong wire type of an integer": (b"\x22\x00", "wrong wireType = 2 for field immutable"),
    "field zero": (b"\x02\x00", "illegal tag 0"),
    "group": (b"\xfb\x07", "illegal wireType 3"),
    "end of a group": (b"\xfc\x07", "illegal wireType 4"),
    "group of a known field": (b"\x0b", "wrong wireType = 3"),
    "illegal wire type": (b"\xff\x07", "illegal wireType 7"),
    "unknown field cut short": (b"\xf9\x07\x00", "unexpected EOF"),
    "map key of a wrong type": (b"\x12\x02\x08\x01", "wrong wireType = 0 in a map entry"),
    "map entry beyond its end": (b"\x12\x02\x0a\x05abcde", "unexpected EOF"),
    "time that is no message": (b"\x0a\x04\x42\x02\x0a\x00", "wrong wireType = 2"),
    "time out of range": (
        encode_delimited(b"\x0a", encode_delimited(b"\x42", b"\x08" + varint(2**62))),
        "out of range",
    ),
}
"""Fields of a ConfigMap: 1 metadata, 2 data, 3 binaryData, 4 immutable."""


class TestHostile:
    @pytest.mark.parametrize(
        ("body", "error"),
        MALFORMED_CONFIG_MAPS.values(),
        ids=MALFORMED_CONFIG_MAPS,
    )
    def test_malformed_message_is_rejected(self, body: bytes, error: str) -> None:
        with pytest.raises(ProtobufError, match=error):
            decode_config_map(body)

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", "empty data"),
            (b"k8s\0", "empty body"),
            (b"{}", r"expected prefix \[107 56 115 0\]"),
            (b"k8s\0\x0a", "unexpected EOF"),
            (b"k8s\0\x08\x01", "of an envelope"),
        ],
    )
    def test_malformed_envelope_is_rejected(self, data: bytes, error: str) -> None:
        with pytest.raises(ProtobufError, match=error):
            protobuf.decode(data)

    def test_unknown_fields_are_skipped(self) -> None:
        unknown = b"\xf8\x07\x01" + b"\xf9\x07" + bytes(8) + b"\xfa\x07\x03abc" + b"\xfd\x07" + bytes(4)
        assert decode_config_map(unknown + b"\x20\x01" + unknown)["immutable"] is True

    def test_invalid_utf8_is_replaced(self) -> None:
        assert decode_config_map(b"\x12\x08\x0a\x01k\x12\x03a\xffb")["data"] == {"k": "a�b"}

    def test_repeated_messages_are_merged_and_the_last_value_wins(self) -> None:
        name, namespace, empty = b"\x0a\x03\x0a\x01a", b"\x0a\x03\x1a\x01b", b"\x0a\x02\x0a\x00"
        assert decode_config_map(name + namespace)["metadata"] == {"name": "a", "namespace": "b"}
        assert decode_config_map(name + empty)["metadata"] == {}

    def test_packed_integers_are_read(self) -> None:
        body = protobuf.encode_body("v1", "Pod", {"spec": {"securityContext": {"supplementalGroups": [1, 300, -1]}}})
        packed = b"\x22" + varint(13) + varint(1) + varint(300) + varint(-1)
        unpacked = b"".join(b"\x20" + varint(value) for value in (1, 300, -1))
        assert unpacked in body
        spec = encode_delimited(b"\x12", encode_delimited(b"\x72", packed))
        decoded = protobuf.decode(protobuf.wrap("v1", "Pod", spec))
        assert decoded["spec"]["securityContext"] == {"supplementalGroups": [1, 300, -1]}

    def test_nesting_of_schemas_is_limited(self) -> None:
        def build_nested_crd(depth: int) -> dict[str, Any]:
            schema: dict[str, Any] = {"type": "string"}
            for _ in range(depth):
                schema = {"type": "object", "properties": {"a": schema}}
            versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
            names = {"kind": "Thing", "plural": "things"}
            return {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "things.example.com"},
                "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions},
                "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None},
            }

        assert protobuf.decode(protobuf.encode(build_nested_crd(100))) == build_nested_crd(100)
        with pytest.raises(ProtobufError, match="nested more than"):
            protobuf.encode(build_nested_crd(300))
        body = b""
        for _ in range(3000):
            body = encode_delimited(b"\xea\x01", b"\x0a\x01a" + encode_delimited(b"\x12", body))
        for number in (b"\x0a", b"\x22", b"\x3a", b"\x12"):
            body = encode_delimited(number, body)
        with pytest.raises(ProtobufError, match="nested more than"):
            protobuf.decode(protobuf.wrap("apiextensions.k8s.io/v1", "CustomResourceDefinition", body))

    def test_nesting_of_envelopes_is_limited(self) -> None:
        data = protobuf.wrap("v1", "Namespace", b"")
        for _ in range(200):
            data = protobuf.wrap("v1", "List", encode_delimited(b"\x12", encode_delimited(b"\x0a", data)))
        with pytest.raises(ProtobufError, match="nested more than"):
            protobuf.decode(data)

    @pytest.mark.parametrize("depth", [600, 100_000])
    def test_nesting_of_raw_json_is_limited(self, depth: int) -> None:
        raw = b"[" * depth + b"]" * depth
        with pytest.raises(ProtobufError, match="raw JSON"):
            protobuf.decode_event(encode_delimited(b"\x12", encode_delimited(b"\x0a", raw)))

    def test_number_of_nearly_empty_items_is_limited(self) -> None:
        with pytest.raises(ProtobufError, match="too many nearly empty items"):
            protobuf.decode(protobuf.wrap("v1", "PodList", b"\x12\x00" * 1_000_000))

    @given(st.binary(max_size=200))
    def test_random_bytes_are_decoded_or_rejected(self, data: bytes) -> None:
        for body in (data, b"k8s\0" + data, *(protobuf.wrap(*key, data) for key in KINDS)):
            check_decoded_or_rejected(body)

    @given(st.data())
    def test_mutated_objects_are_decoded_or_rejected(self, data: st.DataObject) -> None:
        body = bytearray(data.draw(st.sampled_from(BODIES)))
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, len(body)))
            stop = data.draw(st.integers(start, min(len(body), start + 8)))
            body[start:stop] = data.draw(st.binary(max_size=8))
        check_decoded_or_rejected(bytes(body))

    @given(st.sampled_from(range(20)), st.integers(0, 10_000))
    def test_truncated_objects_are_decoded_or_rejected(self, index: int, size: int) -> None:
        check_decoded_or_rejected(BODIES[index][:size])


KINDS = [("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("v1", "List"), ("v1", "Event")]
BODIES = [b64decode(vector["protobuf"]) for vector in random_objects()]


def check_decoded_or_rejected(data: bytes) -> None:
    """Check that the data is rejected, or decodes to JSON that survives a round trip, except for nulls."""
    try:
        decoded = protobuf.decode(data)
    except ProtobufError:
        return
    json.dumps(to_json_value(decoded), allow_nan=False)
    again = protobuf.decode(protobuf.encode(decoded))
    assert without_nulls(to_json_value(again)) == without_nulls(to_json_value(decoded))


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


class TestEncodeErrors:
    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"data": []}, "core.v1.ConfigMap.data: an object is expected, not list"),
            ({"data": {"k": 1}}, "core.v1.ConfigMap.data: a string is expected, not int"),
            ({"binaryData": {"k": "%"}}, "core.v1.ConfigMap.binaryData"),
            ({"immutable": 1}, "core.v1.ConfigMap.immutable: a boolean is expected, not int"),
            ({"metadata": "x"}, "an object is expected, not str"),
            ({"metadata": {"name": 1}}, "meta.v1.ObjectMeta.name: a string is expected, not int"),
            ({"metadata": {"generation": "1"}}, "meta.v1.ObjectMeta.generation: an integer is expected, not str"),
            ({"metadata": {"generation": 2**64}}, "does not fit"),
            ({"metadata": {"finalizers": {}}}, "meta.v1.ObjectMeta.finalizers: a list is expected, not dict"),
            ({"metadata": {"creationTimestamp": "noon"}}, "creationTimestamp: 'noon' is not a time"),
            ({"metadata": {"creationTimestamp": []}}, "is not a time"),
            ({"metadata": {"name": "\ud800"}}, "surrogates not allowed"),
        ],
    )
    def test_value_of_the_wrong_type_is_rejected(self, fields: dict[str, Any], error: str) -> None:
        with pytest.raises(ProtobufError, match=error):
            protobuf.encode({"apiVersion": "v1", "kind": "ConfigMap"} | fields)

    def test_object_without_a_kind_is_rejected(self) -> None:
        with pytest.raises(ProtobufError, match="without apiVersion and kind"):
            protobuf.encode({"metadata": {}})


MOMENTS = st.datetimes(timezones=st.just(UTC)).filter(lambda moment: moment.year > 1)


@given(MOMENTS)
def test_times_round_trip(moment: datetime) -> None:
    metadata = {"deletionTimestamp": moment.isoformat()[:19] + "Z"}
    value = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    assert protobuf.decode(protobuf.encode(value)) == value


@given(MOMENTS)
def test_micro_times_round_trip(moment: datetime) -> None:
    spec = {"renewTime": f"{moment.isoformat()[:19]}.{moment.microsecond:06d}Z"}
    value = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {}, "spec": spec}
    assert protobuf.decode(protobuf.encode(value)) == value


def test_zero_time_is_decoded_as_null() -> None:
    body = protobuf.encode_body("v1", "ServiceAccount", {"metadata": {"deletionTimestamp": "0001-01-01T00:00:00Z"}})
    assert protobuf.decode(protobuf.wrap("v1", "ServiceAccount", body))["metadata"] == {"deletionTimestamp": None}


def load_generator(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("apigen_protobuf", repository / "tools" / "apigen_protobuf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_protobuf_table_is_up_to_date(repository: Path, reference_dir: Path) -> None:
    generated = load_generator(repository).main(reference_dir / "protobuf-fields.json")
    assert generated == (repository / "src/sampan/api/data/protobuf.json").read_text()


def test_every_kind_has_a_form_with_all_of_its_messages() -> None:
    """A field whose message is unknown fails when an object of the kind is first encoded."""
    for api_version, kind in table().kinds():
        table().json_type(table().message_of(api_version, kind))
