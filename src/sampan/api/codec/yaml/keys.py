"""The order of keys in written YAML: letters by code point, runs of digits by their number (`a9` before `a10`), and
letters after all other characters."""

from functools import cmp_to_key


def sorted_keys(keys: list[str]) -> list[str]:
    if all(key.isalpha() for key in keys):
        return sorted(keys)
    return sorted(keys, key=cmp_to_key(_compare))


def _compare(left: str, right: str) -> int:
    at = _first_difference(left, right)
    if at is None:
        return len(left) - len(right)
    a, b = left[at], right[at]
    if a.isalpha() != b.isalpha():
        return 1 if a.isalpha() else -1
    if not a.isalpha():
        number_a, end_a = _number(left, at, right[at])
        number_b, end_b = _number(right, at, left[at])
        if number_a != number_b:
            return number_a - number_b
        if end_a != end_b:
            return end_a - end_b
    return ord(a) - ord(b)


def _first_difference(left: str, right: str) -> int | None:
    for at, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return at
    return None


def _number(key: str, at: int, other: str) -> tuple[int, int]:
    """Return the run of digits at a position as a number, and its end. If a zero continues a number above zero, the
    result gets a leading 1, so that the zero counts as a digit."""
    number = 0
    if key[at] == "0" or other == "0":
        before = at - 1
        while before >= 0 and key[before].isdecimal():
            if key[before] != "0":
                number = 1
                break
            before -= 1
    end = at
    while end < len(key) and key[end].isdecimal():
        number = _int64(number * 10 + ord(key[end]) - ord("0"))
        end += 1
    return number, end


def _int64(value: int) -> int:
    """Wrap around like Go's int64."""
    return (value + 2**63) % 2**64 - 2**63
