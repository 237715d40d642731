"""Mutated samples of every format that untrusted peers send raise only documented errors, at a bounded cost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

_MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "replace", "delete", "repeat", "swap"]),
        st.integers(0, 1 << 16),
        st.binary(max_size=4),
    ),
    min_size=1,
    max_size=6,
)
_MOST_REPEATED = 64


def mutate(sample: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    """Return the sample with bytes inserted, replaced, deleted, repeated many times or copied from elsewhere in it."""
    data = bytearray(sample)
    for change, place, content in changes:
        at = place % (len(data) + 1)
        end = at + 1 + place // 7 % 16
        if change == "insert":
            data[at:at] = content
        elif change == "replace":
            data[at : at + len(content)] = content
        elif change == "delete":
            del data[at:end]
        elif change == "repeat":
            data[at:at] = data[at:end] * (place % _MOST_REPEATED)
        else:
            other = place // 3 % (len(data) + 1)
            data[at:end] = sample[other : other + end - at]
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_the_samples_are_accepted(name: str) -> None:
    target = TARGETS[name]
    for sample in target.samples:
        target.read(sample)


@pytest.mark.parametrize("name", TARGETS)
@given(sample=st.integers(0, 11), changes=_MUTATIONS)
@settings(max_examples=60, deadline=None)
def test_mutated_samples_raise_only_documented_errors(
    name: str, sample: int, changes: list[tuple[str, int, bytes]]
) -> None:
    target = TARGETS[name]
    target.check(mutate(target.samples[sample % len(target.samples)], changes))


@pytest.mark.parametrize("name", TARGETS)
@given(content=st.binary(max_size=200))
@settings(max_examples=40, deadline=None)
def test_arbitrary_bytes_raise_only_documented_errors(name: str, content: bytes) -> None:
    TARGETS[name].check(content)
