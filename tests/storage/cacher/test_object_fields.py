import msgspec
import pytest

from sampan.storage.cacher.object_fields import CachedField, CachedResource, FieldExtractor

SHAPE = CachedResource(
    prefix="/registry/events/",
    kind="Event",
    api_version="v1",
    plural="events",
    fields=(
        CachedField("involvedObject.name", ("involvedObject.name",)),
        CachedField("source", ("source.component", "reportingComponent"), default="nobody"),
        CachedField("count", ("count",), default="0"),
        CachedField("done", ("done",), default="false"),
        CachedField("never", ()),
    ),
)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({}, ("", "nobody", "0", "false", "")),
        ({"involvedObject": {"name": "a", "kind": "Pod"}}, ("a", "nobody", "0", "false", "")),
        ({"source": {"component": "x"}, "reportingComponent": "y"}, ("", "x", "0", "false", "")),
        ({"source": {"component": ""}, "reportingComponent": "y"}, ("", "y", "0", "false", "")),
        ({"source": None, "reportingComponent": "y"}, ("", "y", "0", "false", "")),
        ({"count": 3, "done": True, "other": [1, {"a": 2}]}, ("", "nobody", "3", "true", "")),
        ({"count": {"odd": 1}, "source": "text", "involvedObject": []}, ("", "nobody", "0", "false", "")),
    ],
)
def test_extracted_fields(value: dict[str, object], fields: tuple[str, ...]) -> None:
    assert FieldExtractor(SHAPE)(msgspec.json.encode(value)) == ({}, fields, False)


@pytest.mark.parametrize(
    ("metadata", "labels"),
    [
        ({"name": "a"}, {}),
        ({"labels": None}, {}),
        ({"labels": {}}, {}),
        ({"labels": {"a": "1", "b": ""}}, {"a": "1", "b": ""}),
        ({"labels": {"é\n": "ü"}}, {"é\n": "ü"}),
    ],
)
def test_extracted_labels(metadata: dict[str, object], labels: dict[str, str]) -> None:
    extract = FieldExtractor(SHAPE)
    assert extract(msgspec.json.encode({"metadata": metadata}))[0] == labels
    assert extract(msgspec.json.encode({"metadata": metadata, "count": {}}))[0] == labels


def test_equal_labels_are_shared() -> None:
    extract = FieldExtractor(SHAPE)
    value = msgspec.json.encode({"metadata": {"labels": {"a": "1"}}})
    assert extract(value)[0] is extract(value)[0]


def test_stored_resource_version_is_detected() -> None:
    assert FieldExtractor(SHAPE)(b'{"metadata":{"resourceVersion":"3"}}')[2]
    assert FieldExtractor(SHAPE)(b'{"metadata":{"resourceVersion":"3"},"count":[]}')[2]


@pytest.mark.parametrize("value", [b"[]", b"1", b"{", b"", b'{"metadata":{"labels":{"a":1}}}'])
def test_invalid_values_are_rejected(value: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        FieldExtractor(SHAPE)(value)


def test_field_path_through_another_field_is_rejected() -> None:
    shape = CachedResource(
        prefix="/",
        kind="X",
        api_version="v1",
        plural="xs",
        fields=(CachedField("a", ("a",)), CachedField("b", ("a.b",))),
    )
    with pytest.raises(ValueError, match="goes through a value"):
        FieldExtractor(shape)
