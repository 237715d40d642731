import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.selectors import fields
from sampan.api.selectors.fields import FieldSelector, FieldSelectorError, FieldTerm, escape, parse, unescape

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "field_selector_vectors.json").read_text())


@pytest.mark.parametrize(("text", "expected", "terms", "error"), VECTORS)
def test_parsing_is_the_same_as_on_the_real_server(
    text: str, expected: str, terms: list[list[str]] | None, error: str | None
) -> None:
    if error:
        with pytest.raises(FieldSelectorError) as raised:
            parse(text)
        assert str(raised.value) == error
    else:
        selector = parse(text)
        assert str(selector) == expected
        assert [[term.field, "!=" if term.is_negated else "=", term.value] for term in selector.terms] == terms


names = st.sampled_from(["metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"])
terms = st.builds(FieldTerm, names, st.text(alphabet="ab\\,=é", max_size=4), st.booleans())


@given(st.text())
def test_escape_and_unescape_round_trip(value: str) -> None:
    assert unescape(escape(value)) == value


@given(st.lists(terms, max_size=4))
def test_text_of_a_selector_is_parsed_back(terms: list[FieldTerm]) -> None:
    selector = FieldSelector(tuple(terms))
    assert set(parse(str(selector)).terms) == set(terms)


@given(st.lists(terms, max_size=4), st.dictionaries(names, st.text(alphabet="ab", max_size=2)))
def test_matching(terms: list[FieldTerm], values: dict[str, str]) -> None:
    expected = all((values.get(term.field, "") == term.value) != term.is_negated for term in terms)
    assert FieldSelector(tuple(terms)).matches(values) == expected


@pytest.mark.parametrize("text", ["a=" + "b" * 16_384, ",".join(["a=b"] * 1_001)], ids=["long", "many terms"])
def test_selectors_are_bounded(text: str) -> None:
    with pytest.raises(FieldSelectorError, match=r"more than 16384 characters|more than 1000 requirements"):
        parse(text)


def test_exact_terms() -> None:
    assert parse("a=1,b!=2,c==3").exact() == [("a", "1"), ("c", "3")]


def test_empty_selector_matches_everything() -> None:
    everything = FieldSelector()
    assert parse("") == parse(",,") == everything
    assert everything.is_everything
    assert everything.matches({})


def test_unsupported_fields_are_rejected() -> None:
    selector = parse("metadata.name=a,spec.x=b")
    selector.check(["metadata.name", "spec.x"])
    with pytest.raises(FieldSelectorError, match=r"^field label not supported: spec\.x$"):
        selector.check(["metadata.name"])
    with pytest.raises(FieldSelectorError) as raised:
        selector.check(None)
    expected = '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    assert str(raised.value) == expected
    parse("metadata.name=a,metadata.namespace!=b").check(None)


SUPPORTED = {
    "secrets": ("metadata.name", "metadata.namespace", "type"),
    "certificatesigningrequests": ("metadata.name", "spec.signerName"),
}


def test_recorded_errors(reference_dir: Path) -> None:
    steps = json.loads((reference_dir / "recordings" / "lists-fields-bad.json").read_text())
    count = 0
    for step in steps:
        url = urlsplit(step["request"].split(" ")[1])
        query = parse_qs(url.query)
        if "fieldSelector" not in query:
            continue
        text = query["fieldSelector"][0]
        supported = SUPPORTED.get(url.path.rpartition("/")[2])
        if step["status"] == 200:
            parse(text).check(supported)
        elif step["status"] == 400:
            with pytest.raises(FieldSelectorError) as raised:
                parse(text).check(supported)
            assert str(raised.value) == step["body"]["message"]
            count += 1
    assert count > 10


def test_long_texts_are_not_cached() -> None:
    size = fields._selectors.bytes
    parse("a=" + "b" * 10_000)
    assert fields._selectors.bytes == size


def test_usual_selectors_are_parsed_once() -> None:
    assert parse("spec.nodeName=a,status.phase!=b") is parse("spec.nodeName=a,status.phase!=b")
