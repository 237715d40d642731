"""Numbers come back in the form in which Go's JSON encoder writes them."""

import json
from typing import Any

import pytest

from sampan.api.codec import custom
from sampan.api.codec import json as json_codec
from sampan.api.schema.tree import ANY
from sampan.api.types.apiextensions_v1 import JSONSchemaProps
from sampan.api.values import json_numbers


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("0.0", "0"),
        ("1e3", "1000"),
        ("9223372036854775807.0", "9223372036854776000"),
        ("9.223372036854775e18", "9223372036854775000"),
        ("1e20", "100000000000000000000"),
        ("1.5", "1.5"),
        ("-2.0", "-2"),
    ],
)
def test_whole_floats_have_no_fraction(written: str, number: str) -> None:
    assert str(json_numbers.from_float(float(written))) == number


def test_large_floats_stay_floats() -> None:
    assert type(json_numbers.from_float(1e21)) is float


@pytest.mark.parametrize(
    ("field", "written", "expected"),
    [
        ("maximum", "0", "0"),
        ("maximum", "9223372036854775807", "9223372036854776000"),
        ("minimum", "9007199254740993", "9007199254740992"),
        ("multipleOf", "0.5", "0.5"),
        ("multipleOf", "1.0", "1"),
        ("default", "9223372036854775807", "9223372036854775807"),
        ("default", "18446744073709551615", "18446744073709552000"),
        ("default", '{"a":[1.0,1e16]}', '{"a":[1,10000000000000000]}'),
        ("enum", "[1.0,2]", "[1,2]"),
        ("example", "-3.0", "-3"),
    ],
)
def test_numbers_of_a_schema(field: str, written: str, expected: str) -> None:
    schema = json_codec.read(f'{{"{field}":{written}}}'.encode(), JSONSchemaProps)
    assert json_codec.encode(schema) == f'{{"{field}":{expected}}}'.encode()


@pytest.mark.parametrize(
    ("written", "number"),
    [("9223372036854775807", 9223372036854775807), ("9223372036854775808", 9223372036854776000), ("1.0", 1)],
)
def test_numbers_of_a_custom_object(written: str, number: Any) -> None:
    value, errors = custom.decode(f'{{"spec":{{"n":[{written}]}}}}'.encode(), ANY)
    assert (json.dumps(value["spec"]["n"][0]), errors) == (str(number), [])
