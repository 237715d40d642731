import contextlib

from hypothesis import given
from hypothesis import strategies as st

from sampan.machinery.multiplex import upgrade


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_bad_response(data: bytes) -> None:
    with contextlib.suppress(upgrade.BadResponse):
        upgrade.parsed(data)
