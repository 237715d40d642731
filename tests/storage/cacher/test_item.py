import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.storage.cacher.errors import UndecipherableValue
from sampan.storage.cacher.item import CacheItem, ItemMaker, replace_version, splice
from tests.storage.cacher.cacher_store import PODS

HEAD = b'{"kind":"Pod","apiVersion":"v1",'


def splice_to_bytes(value: bytes, revision: int = 7, **kwargs: bool) -> bytes:
    return b"".join(splice(value, revision, HEAD, **kwargs))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{}}',
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"a"},"spec":{}}',
            id="canonical",
        ),
        pytest.param(
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}\n',
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"a"}}',
            id="trailing newline, as Kubernetes stores it",
        ),
        pytest.param(
            b'{"kind":"Pod","apiVersion":"v1","metadata":{}}',
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}',
            id="empty metadata",
        ),
        pytest.param(
            b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"x":1e400}',
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"a"},"x":1e400}',
            id="other order, and a number beyond float",
        ),
        pytest.param(
            b'{\n "spec": {"metadata": {}},\n "metadata": {"name": "a"},\n "kind": "Pod", "apiVersion": "v1"}',
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"a"},"spec":{"metadata":{}}}',
            id="white space, and a nested metadata first",
        ),
        pytest.param(
            b'{"kind":"Pod","apiVersion":"v1"}',
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}',
            id="no metadata",
        ),
        pytest.param(
            b'{"kind":"Pod","apiVersion":"v2","metadata":{"name":"a"}}',
            b'{"kind":"Pod","apiVersion":"v2","metadata":{"resourceVersion":"7","name":"a"}}',
            id="another version",
        ),
    ],
)
def test_resource_version_is_inserted_at_the_start_of_the_metadata(value: bytes, expected: bytes) -> None:
    assert splice_to_bytes(value) == expected


def test_stored_resource_version_is_replaced() -> None:
    value = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"3"},"spec":{}}'
    assert splice_to_bytes(value, is_clean=False) == (
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"a"},"spec":{}}'
    )


def test_items_share_one_head_object() -> None:
    for value in (HEAD + b'"metadata":{}}', b'{"metadata":{},"apiVersion":"v1","kind":"Pod"}'):
        assert splice(value, 1, HEAD)[0] is HEAD


@pytest.mark.parametrize("value", [b"", b"null", b"[]", b'{"metadata":[]}', b'{"kind":"Pod"', b"\xff\xfe"])
def test_invalid_values_are_rejected(value: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        splice(value, 1, HEAD)


@pytest.mark.parametrize("end", [b"x", b"\n"], ids=["any byte", "newline"])
def test_an_encrypted_value_is_reported_with_its_key(end: bytes) -> None:
    """The last byte of a ciphertext is random, and may look like the end of JSON."""
    maker = ItemMaker(shape=PODS, decode_value=lambda value: value)
    with pytest.raises(UndecipherableValue, match="it is encrypted with aesgcm key 'k', which no configured key"):
        maker.make("/registry/pods/default/a", b"k8s:enc:aesgcm:v1:k:\x00\x01" + end, 7)


texts = st.text(max_size=8)
metadata = st.dictionaries(texts.filter(lambda key: key != "resourceVersion"), texts, max_size=4)


@given(metadata, st.dictionaries(texts, st.integers(), max_size=3), st.integers(1, 2**63), st.integers(1, 2**63))
def test_splice_changes_only_the_resource_version(
    meta: dict[str, str], spec: dict[str, int], revision: int, later: int
) -> None:
    value = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec}
    head, body = splice(msgspec.json.encode(value), revision, HEAD)
    expected = {**value, "metadata": {**meta, "resourceVersion": str(revision)}}
    assert json.loads(head + body) == expected
    expected["metadata"] = {**meta, "resourceVersion": str(later)}
    assert json.loads(head + replace_version(body, revision, later)) == expected


def test_replaced_item_has_no_decoded_object_and_decodes_on_each_call() -> None:
    decoded: list[bytes] = []

    def decode(raw: bytes) -> dict[str, str]:
        decoded.append(raw)
        return {"name": "a"}

    item = CacheItem("/registry/pods/default/a", "default", 7, HEAD, b'"metadata":{"resourceVersion":"7"}}', {}, ())
    shared = item.object(decode)
    assert item.object(decode) is shared is item.decoded
    item.replace()
    assert item.decoded is None
    assert item.object(decode) == shared
    assert item.decoded is None
    assert decoded == [item.raw, item.raw]
