"""Errors of decoding, with the messages of kube-apiserver."""

import msgspec

JSON_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""All that msgspec raises for a JSON text: a text that is not UTF-8 or nested too deeply has an error of Python."""


class DecodeError(ValueError):
    """The bytes are not an object of the requested type."""


class JsonSyntaxError(DecodeError):
    """The bytes are not valid JSON."""


class BodyTooLargeError(DecodeError):
    """The decoded object would take too much memory."""
