"""Where a string stops being standard base64, in Go's words."""

_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def fault(value: str) -> str | None:
    """What Go says of a string that is not standard base64, None if it is."""
    at = _first_illegal(value.encode())
    return None if at is None else f"illegal base64 data at input byte {at}"


def _first_illegal(data: bytes) -> int | None:
    """Where Go's decoder stops: at a byte that cannot be there, or at the start of an unfinished group of four."""
    letters = [(index, byte) for index, byte in enumerate(data) if byte not in b"\r\n"]
    for place, (index, byte) in enumerate(letters):
        if byte == ord("="):
            return _padding_fault(data, letters[place:], place % 4)
        if byte not in _BASE64:
            return index
    unfinished = len(letters) % 4
    return len(data) - unfinished if unfinished else None


def _padding_fault(data: bytes, rest: list[tuple[int, int]], place: int) -> int | None:
    """What is wrong from the first = on, which is the letter number `place` of its group."""
    if place < 2:
        return rest[0][0]
    if place == 2:
        if len(rest) == 1:
            return len(data)
        if rest[1][1] != ord("="):
            return rest[1][0] - 1
        rest = rest[1:]
    return rest[1][0] if len(rest) > 1 else None


__all__ = ["fault"]
