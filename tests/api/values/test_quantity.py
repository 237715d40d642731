import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.values import quantity
from sampan.api.values.quantity import MAX_INT64, Format, Quantity, QuantityError, canonical, parse
from tests.input_cost import check_cost

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "quantity_vectors.json").read_text())
FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(("text", "written", "format", "error"), VECTORS)
def test_parsing_is_the_same_as_on_the_real_server(
    text: str, written: str | None, format: str | None, error: str | None
) -> None:
    if error:
        with pytest.raises(QuantityError) as raised:
            parse(text)
        assert str(raised.value) == error
    else:
        quantity = parse(text)
        assert (str(quantity), quantity.format) == (written, format)


@pytest.mark.parametrize(
    ("value", "written"),
    [(1, "1"), (0, "0"), (1000, "1k"), (-5, "-5"), (0.5, "500m"), (1.5, "1500m"), (" 1Gi ", "1Gi"), (10**20, "100E")],
)
def test_canonical_form_of_json_values(value: str | float, written: str) -> None:
    assert canonical(value) == written


@pytest.mark.parametrize("value", [True, None, [], {}, "1\n", "\t1", float("inf"), float("nan")])
def test_invalid_json_values_are_rejected(value: Any) -> None:
    with pytest.raises(QuantityError) as raised:
        canonical(value)
    assert str(raised.value) == FORMAT_ERROR


def exact(value: Quantity) -> Fraction:
    return Fraction(value.mantissa) * Fraction(10) ** value.scale


factors = {
    **{"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)},
    **{"k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12)},
    **{"e3": Fraction(1000), "E-3": Fraction(1, 1000), "e0": Fraction(1), "e-9": Fraction(1, 10**9)},
    **{"Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40)},
}
suffixes = st.sampled_from(sorted(factors))
numbers = st.from_regex(r"[+-]?[0-9]{1,12}(\.[0-9]{1,12})?", fullmatch=True)
texts = st.builds(str.__add__, numbers, suffixes)
quantities = texts.map(parse)


def has_suffix(value: Quantity) -> bool:
    """Return False for decimals with more trailing zeros than the largest suffix: they are written without it."""
    return value.format is not Format.DECIMAL_SI or value.scale < 21


@given(quantities.filter(has_suffix))
def test_text_of_a_quantity_round_trips(first: Quantity) -> None:
    again = parse(str(first))
    assert again == first
    assert hash(again) == hash(first)
    assert str(again) == str(first)


@given(numbers, suffixes)
def test_parse_rounds_away_from_zero_by_less_than_a_nano(number: str, suffix: str) -> None:
    parsed = abs(exact(parse(number + suffix)))
    exact_value = abs(Fraction(number) * factors[suffix])
    if suffix.endswith("i"):
        exact_value = min(exact_value, Fraction(MAX_INT64))
    assert 0 <= parsed - exact_value < Fraction(1, 10**9)


@given(quantities, quantities)
def test_order_is_numeric(a: Quantity, b: Quantity) -> None:
    assert (a < b) == (exact(a) < exact(b))
    assert (a == b) == (exact(a) == exact(b))
    assert (a >= b) == (exact(a) >= exact(b))


@given(quantities, quantities)
def test_sums_and_differences_are_exact(a: Quantity, b: Quantity) -> None:
    assert exact(a + b) == exact(a) + exact(b)
    assert exact(a - b) == exact(a) - exact(b)
    assert (a + b) - b == a
    assert (a + b).format == (a if a else b).format


@given(quantities, st.integers(-9, 9))
def test_scaled_value_rounds_away_from_zero(a: Quantity, scale: int) -> None:
    number = exact(a) / Fraction(10) ** scale
    expected = -(-number.numerator // number.denominator) if number > 0 else number.numerator // number.denominator
    assert a.scaled_value(scale) == max(-MAX_INT64, min(expected, MAX_INT64))


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [("100m", 1, 100), ("1.5", 2, 1500), ("-1.5", -2, -1500), ("1Gi", 2**30, 2**30 * 1000), ("0", 0, 0), ("1n", 1, 1)],
)
def test_value_and_milli_value(text: str, value: int, milli: int) -> None:
    assert parse(text).value() == value
    assert parse(text).milli_value() == milli


def test_round_up_keeps_the_text_of_exact_values() -> None:
    assert str(parse("1.001").round_up(-3)) == "1.001"
    assert str(parse("0.1m").round_up(-3)) == "1m"
    assert str(parse("-1.0001").round_up(-3)) == "-1001m"


def test_as_float() -> None:
    assert parse("100m").as_float() == 0.1
    assert parse("1Ki").as_float() == 1024.0
    assert parse("1e400").as_float() == float("inf")


def test_products_and_signs() -> None:
    assert parse("250m") * 4 == parse("1")
    assert -parse("1Gi") == parse("-1Gi")
    assert abs(parse("-3")) == parse("3")
    assert [parse(text).sign for text in ("-1", "0", "1")] == [-1, 0, 1]
    assert not parse("0Ki")
    assert repr(parse("1Mi")) == "Quantity('1Mi')"
    assert parse("1") != "1"


def test_huge_exponents() -> None:
    huge, tiny = parse("1e2000000000"), parse("1e-2000000000")
    assert str(huge) == "100e1999999998"
    assert str(tiny) == "1e-9"
    assert tiny < parse("1") < huge
    assert -huge < -parse("1")
    assert huge + parse("1") == huge
    assert parse("1") - huge == -huge
    assert huge.value() == MAX_INT64
    assert (-huge).milli_value() == -MAX_INT64
    assert str(parse("1Gi") + huge)
    assert parse("12345678901234567890e1999999981") > huge


def test_long_numbers_are_parsed_or_rejected() -> None:
    assert str(parse("9" * 1999)) == "9" * 1999
    assert parse("9" * 1999) + parse("0." + "0" * 8 + "1") > parse("9" * 1999)
    assert str(parse("1" + "0" * 1998 + "e2000") + parse("9" * 1999))
    with pytest.raises(QuantityError, match="unable to parse numeric part of quantity"):
        parse("9" * 100_000)
    with pytest.raises(QuantityError, match="unable to parse numeric part of quantity"):
        canonical(10**100_000)
    with pytest.raises(QuantityError, match="unable to parse quantity's suffix"):
        parse("1e" + "9" * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0" * 100_000 + "x", id="zeros"),
        pytest.param("1" * 100_000 + "x", id="ones"),
        pytest.param("m" * 100_000 + "x", id="suffixes"),
        pytest.param("0." + "0" * 100_000 + "x", id="decimal places"),
        pytest.param("1e" + "9" * 100_000, id="exponent"),
    ],
)
def test_long_hostile_texts_are_rejected_at_a_bounded_cost(text: str) -> None:
    def check() -> None:
        with pytest.raises(QuantityError):
            parse(text)

    check_cost(check)


def test_long_texts_are_not_cached() -> None:
    size = quantity._quantities.bytes + quantity._canonical_texts.bytes
    parse("0" * 100_000 + "1")
    canonical("0" * 100_000 + "1")
    assert quantity._quantities.bytes + quantity._canonical_texts.bytes == size


def test_formats() -> None:
    assert parse("1Gi").format is Format.BINARY_SI
    assert parse("1G").format is Format.DECIMAL_SI
    assert parse("1e9").format is Format.DECIMAL_EXPONENT
    assert str(Quantity(1536 * 2**20, format=Format.BINARY_SI)) == "1536Mi"


def _resource_lists(value: Any) -> Any:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("limits", "requests", "capacity", "allocatable", "hard", "used") and isinstance(inner, dict):
                yield from (text for text in inner.values() if isinstance(text, str))
            else:
                yield from _resource_lists(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _resource_lists(inner)


def test_recorded_quantities_are_canonical(reference_dir: Path) -> None:
    quantities = set()
    for path in (reference_dir / "recordings").glob("*.json"):
        for step in json.loads(path.read_text()):
            if step.get("status", 500) < 300:
                quantities.update(_resource_lists(step.get("body")))
    texts = {text for text in quantities if not text.startswith("<")}
    assert len(texts) > 30
    assert {text: canonical(text) for text in texts} == {text: text for text in texts}


def test_usual_quantities_are_parsed_once() -> None:
    assert parse("250m") is parse("250m")
