import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.storage.backend import prefix_end

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("/\ud7ff\ue000\U0010ffff"), max_size=6)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("/registry/pods/", "/registry/pods0"),
        ("", None),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("\ud7ff", "\ue000"),
    ],
)
def test_prefix_end(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end


@given(texts, texts)
def test_range_of_a_prefix_contains_exactly_the_keys_that_start_with_the_prefix(prefix: str, key: str) -> None:
    end = prefix_end(prefix)
    assert (key >= prefix and (end is None or key < end)) == key.startswith(prefix)


@given(texts, texts)
def test_str_order_equals_utf8_byte_order(first: str, other: str) -> None:
    assert (first < other) == (first.encode() < other.encode())
