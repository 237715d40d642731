"""Errors of decoding, with the messages of kube-apiserver."""

import msgspec

JSON_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""All exceptions that msgspec raises for a JSON text. A text that is not UTF-8, or nested too deeply, raises a built-in
exception of Python."""


class DecodeError(ValueError):
    """The bytes are not an object of the requested type."""


class JsonSyntaxError(DecodeError):
    """The bytes are not valid JSON."""


class BodyTooLargeError(DecodeError):
    """The decoded object would take too much memory."""
