import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.selectors import labels
from sampan.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    from_labels,
    parse,
)
from tests.input_cost import is_quick

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "label_selector_vectors.json").read_text())


@pytest.mark.parametrize(("text", "expected", "error"), VECTORS)
def test_parsing_is_the_same_as_on_the_real_server(text: str, expected: str | None, error: str | None) -> None:
    if error:
        with pytest.raises(SelectorError) as raised:
            parse(text)
        assert str(raised.value) == error
    else:
        assert str(parse(text)) == expected


keys = st.sampled_from(["a", "b", "app", "example.com/zone", "in", "notin"])
values = st.sampled_from(["", "x", "y", "z", "5", "10", "007", "in", "notin"])
integers = st.integers(0, 20).map(str)
label_sets = st.dictionaries(keys, values | integers)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]), st.just(())),
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS]),
        st.tuples(values),
    ),
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sets(values, min_size=1, max_size=4).map(lambda members: tuple(sorted(members))),
    ),
    st.builds(Requirement, keys, st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]), st.tuples(integers)),
)
selectors = (st.lists(requirements, max_size=5) | st.lists(requirements, min_size=9, max_size=14)).map(Selector)


def is_met(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether the labels meet a requirement: the reference for `matches`."""
    key, operator, values = requirement
    value = labels.get(key)
    if operator in (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS):
        return value is not None and value in values
    if operator in (Operator.NOT_IN, Operator.NOT_EQUALS):
        return value is None or value not in values
    if operator is Operator.EXISTS:
        return value is not None
    if operator is Operator.DOES_NOT_EXIST:
        return value is None
    if value is None or not value.isdigit():
        return False
    return int(value) > int(values[0]) if operator is Operator.GREATER_THAN else int(value) < int(values[0])


@given(selectors)
def test_text_of_a_selector_is_parsed_back(selector: Selector) -> None:
    again = parse(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)


@given(selectors, label_sets)
def test_matching_means_that_all_requirements_hold(selector: Selector, labels: dict[str, str]) -> None:
    assert selector.matches(labels) == all(is_met(requirement, labels) for requirement in selector.requirements)


@given(selectors, label_sets)
def test_matching_labels_contain_the_exact_pairs(selector: Selector, labels: dict[str, str]) -> None:
    if selector.matches(labels):
        assert set(selector.exact()) <= set(labels.items())
        assert selector.required_labels().items() <= labels.items()


@given(st.text(alphabet="ab=!(),<> in\0\t", max_size=20))
def test_arbitrary_text_is_parsed_or_rejected(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError:
        return
    assert parse(str(selector)) == selector


def test_exact_and_required_pairs() -> None:
    selector = parse("a=1,b==2,c in (3),d in (4,5),e!=6,f,a=7")
    assert selector.exact() == [("a", "1"), ("a", "7"), ("b", "2"), ("c", "3")]
    assert selector.required_labels() == {"a": "7", "b": "2", "c": "3"}


def test_everything_and_nothing() -> None:
    assert parse("") == EVERYTHING
    assert EVERYTHING.is_everything
    assert EVERYTHING.matches({})
    assert not NOTHING.is_everything
    assert not NOTHING.matches({"a": "b"})
    assert EVERYTHING != NOTHING
    assert not NOTHING.with_requirements(Requirement("a", Operator.EXISTS)).matches({"a": "b"})
    assert str(EVERYTHING.with_requirements(Requirement("a", Operator.EXISTS))) == "a"
    assert repr(NOTHING) == "Selector(is_nothing=True)"
    assert repr(parse("a=b")) == "Selector('a=b')"


def test_from_labels() -> None:
    assert str(from_labels({"b": "2", "a": "1"})) == "a=1,b=2"
    assert from_labels({}) == EVERYTHING


@pytest.mark.parametrize(
    ("value", "greater", "less"),
    [
        ("4", False, True),
        ("5", False, False),
        ("6", True, False),
        ("x", False, False),
        ("", False, False),
        ("+6", True, False),
        ("-6", False, True),
        ("9223372036854775807", True, False),
        ("9223372036854775808", False, False),
    ],
)
def test_greater_and_less_than_compare_64_bit_integers(value: str, greater: bool, less: bool) -> None:
    assert parse("n>5").matches({"n": value}) is greater
    assert parse("n<5").matches({"n": value}) is less


def test_long_texts_are_not_cached() -> None:
    size = labels._selectors.bytes
    parse(",".join(f"key-{number}" for number in range(500)))
    assert labels._selectors.bytes == size


def test_equal_long_texts_share_one_selector() -> None:
    text = ",".join(f"shared-{number}" for number in range(500))
    assert parse(text) is parse(text + "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a in (" + "v," * 8_200 + "v)", id="many characters"),
        pytest.param(",".join(["a"] * 1_001), id="many requirements"),
    ],
)
def test_selectors_are_bounded(text: str) -> None:
    with pytest.raises(SelectorError, match=r"too long: may not be more than 16384|not have more than 1000"):
        parse(text)


def test_cost_of_matching_does_not_depend_on_the_number_of_requirements() -> None:
    many = Selector(Requirement(f"key-{number}", Operator.DOES_NOT_EXIST) for number in range(1_000))
    label_sets = [{"app": "a", "n": str(number)} for number in range(20_000)]
    assert is_quick(lambda: list(map(many.matches, label_sets)), 0.5)  # each with each takes a second


def read_selectors(reference_dir: Path, name: str, parameter: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the selectors of a recording with their recorded steps."""
    steps = json.loads((reference_dir / "recordings" / f"{name}.json").read_text())
    queries = [(parse_qs(urlsplit(step["request"].split(" ")[1]).query), step) for step in steps]
    return [(query[parameter][0], step) for query, step in queries if parameter in query and step["status"] != 404]


def test_recorded_errors(reference_dir: Path) -> None:
    cases = read_selectors(reference_dir, "lists-labels-bad", "labelSelector")
    assert len(cases) > 15
    for text, step in cases:
        if step["status"] == 200:
            parse(text)
            continue
        with pytest.raises(SelectorError) as raised:
            parse(text)
        assert str(raised.value) == step["body"]["message"]


def test_recorded_lists_contain_the_matching_objects(reference_dir: Path) -> None:
    cases = [
        (text, step["body"]["items"])
        for text, step in read_selectors(reference_dir, "lists-labels", "labelSelector")
        if step["body"].get("kind") == "SecretList"
    ]
    known = {item["metadata"]["name"]: item["metadata"].get("labels", {}) for _, items in cases for item in items}
    assert len(cases) > 15
    for text, items in cases:
        selected = {name for name, labels in known.items() if parse(text).matches(labels)}
        assert selected == {item["metadata"]["name"] for item in items}, text


def test_usual_selectors_are_parsed_once() -> None:
    assert parse("app in (a,b),tier!=x,!old,new") is parse("app in (a,b),tier!=x,!old,new")
