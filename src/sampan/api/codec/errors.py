"""Errors of decoding, with the messages of kube-apiserver."""


class DecodeError(ValueError):
    """The bytes are not an object of the requested type."""


class JsonSyntaxError(DecodeError):
    """The bytes are not valid JSON."""


class BodyTooLargeError(DecodeError):
    """The decoded object would take too much memory."""
