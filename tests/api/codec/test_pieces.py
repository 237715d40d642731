"""Large JSON that is decoded in pieces gives the same result as in one piece."""

from __future__ import annotations

import json as stdlib_json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api import limits
from sampan.api.codec import json, pieces
from sampan.api.schema import schemas
from sampan.api.types.apps_v1 import Deployment
from sampan.api.types.core_v1 import ConfigMap, Pod
from tests.api.schema_values import values

KINDS: tuple[type[Any], ...] = (Pod, ConfigMap, Deployment)


@pytest.fixture(autouse=True, scope="module", params=[0, 1000], ids=["scanned", "split"])
def _small_pieces(request: pytest.FixtureRequest) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "SPLIT_VALUES", request.param)
        patch.setattr(pieces, "PIECE_BYTES", 20)
        patch.setattr(limits, "INLINE_BODY_BYTES", 20)
        yield


VALUES = st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.just(kind), values(schemas.schema_of(kind), depth=5)))


@settings(max_examples=100)
@given(drawn=VALUES, indent=st.sampled_from([None, 1]))
def test_values_decode_the_same_in_pieces(drawn: tuple[type[Any], Any], indent: int | None) -> None:
    kind, value = drawn
    typed = stdlib_json.dumps(value, indent=indent).encode()
    plain = msgspec.json.encode({"a": [value, 1.5, 2.0, None], "b": value})
    assert json.decode(typed, kind) == (json.read(typed, kind), [])
    assert json.decode_any(plain) == (json.read_any(plain), [])


PADDING = '"data":{"x":"' + "y" * 100 + '"}'


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (f'{{{PADDING},"kind":"ConfigMap","kind":"ConfigMap"}}', 'duplicate field "kind"'),
        (f'{{"metadata":{{"labels":{{"a":"b","a":"{"c" * 50}"}}}},{PADDING}}}', 'duplicate field "metadata.labels.a"'),
        (f'{{{PADDING},"metadata":{{"name":"\\u0022","name":"a"}}}}', 'duplicate field "metadata.name"'),
        (f'{{{PADDING},"other":1}}', 'unknown field "other"'),
        (f'{{{PADDING},"metadata":{{"other":1}}}}', 'unknown field "metadata.other"'),
    ],
)
def test_strict_errors_are_found_in_every_piece(body: str, error: str) -> None:
    assert json.decode(body.encode(), ConfigMap)[1] == [error]


@pytest.mark.parametrize("body", [b'{"data":{"a":1%b}}', b'{"data":[%b]}', b'{"data"%b}', b"[%b]", b'{"data":{"a":%b}'])
def test_errors_are_the_same_as_without_pieces(body: bytes) -> None:
    body %= b" " * 100
    with pytest.raises(json.DecodeError) as large:
        json.decode(body, ConfigMap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "INLINE_BODY_BYTES", 1000)
        with pytest.raises(json.DecodeError) as small:
            json.decode(body, ConfigMap)
    assert str(large.value) == str(small.value)


def test_null_values_are_decoded() -> None:
    body = b'{"data":null,"metadata":{"name":"a","labels":null}%b}' % (b" " * 100)
    assert json.decode(body, ConfigMap)[0].metadata.name == "a"


def test_brackets_and_commas_in_strings_do_not_count_as_values() -> None:
    json.check_size(msgspec.json.encode({"a": '[{,"\\' * 200_000}))
    with pytest.raises(json.BodyTooLargeError):
        json.check_size(msgspec.json.encode({"a": ['"'] * 300_000}))


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"%b",}',
        b'{,"a":"%b"}',
        b'{"a":"%b","b":[1,2}}',
        b'{"a":"%b"]',
        b'{"a":"%b"},"b":1}',
        b'{"a":"%b',
        b'{ ,"a":"%b","b":1}',
        b'[1,"%b",,2]',
    ],
)
def test_malformed_bodies_are_rejected(body: bytes) -> None:
    with pytest.raises(json.DecodeError):
        json.decode_any(body % (b"x" * 100))


def test_typed_and_plain_values_convert_into_each_other() -> None:
    config = ConfigMap(data={"a": "\\u0022", **{f"k{number}": "v" * 10 for number in range(20)}})
    value = json.to_value(config)
    assert value["data"] == config.data
    assert json.decode_value(value, ConfigMap) == (config, [])
