import subprocess
import sys

from tests.reservations import reserved_number, reserved_subnet

_TAKE_ALL = """
from contextlib import ExitStack
from tests.reservations import reserved_number
with ExitStack() as stack:
    print(sorted(stack.enter_context(reserved_number("test", 4)) for _ in range(3)))
"""


def test_a_number_is_reserved_until_the_end_of_its_use() -> None:
    with reserved_number("test", 4) as own:
        done = subprocess.run([sys.executable, "-c", _TAKE_ALL], capture_output=True, text=True, check=True)
        assert done.stdout == f"{[number for number in range(4) if number != own]}\n"
    with reserved_number("test", 4) as later:
        assert later == own


def test_subnets_of_one_process_differ() -> None:
    with reserved_subnet("198.18") as first, reserved_subnet("198.18") as second:
        assert first != second
