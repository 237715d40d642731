"""Validation of standard base64, with Go's error messages."""

_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def error_message(value: str) -> str | None:
    """Return Go's error message for a string that is not standard base64, or None if it is."""
    at = _first_illegal(value.encode())
    return None if at is None else f"illegal base64 data at input byte {at}"


def _first_illegal(data: bytes) -> int | None:
    """Return where Go's decoder stops: at an illegal byte, or at the start of an incomplete group of four."""
    letters = [(index, byte) for index, byte in enumerate(data) if byte not in b"\r\n"]
    for position, (index, byte) in enumerate(letters):
        if byte == ord("="):
            return _padding_error(data, letters[position:], position % 4)
        if byte not in _BASE64:
            return index
    unfinished = len(letters) % 4
    return len(data) - unfinished if unfinished else None


def _padding_error(data: bytes, rest: list[tuple[int, int]], place: int) -> int | None:
    """Return the position of an error from the first = on, which is at index `place` of its group."""
    if place < 2:
        return rest[0][0]
    if place == 2:
        if len(rest) == 1:
            return len(data)
        if rest[1][1] != ord("="):
            return rest[1][0] - 1
        rest = rest[1:]
    return rest[1][0] if len(rest) > 1 else None
