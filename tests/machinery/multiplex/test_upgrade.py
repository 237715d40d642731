import contextlib

from hypothesis import given
from hypothesis import strategies as st

from sampan.machinery.multiplex import upgrade


@given(st.binary(max_size=200))
def test_any_bytes_are_a_response_head_or_bad(data: bytes) -> None:
    with contextlib.suppress(upgrade.BadResponse):
        upgrade.parsed(data)
