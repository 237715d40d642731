"""What can be wrong with the bytes of an object, in the words of the real server."""


class DecodeError(ValueError):
    """The bytes are no object of the type asked for."""


class SyntaxFault(DecodeError):
    """The bytes are not even JSON."""


class BodyTooLargeError(DecodeError):
    """The bytes may be an object, but one that would take up too much memory."""


__all__ = ["BodyTooLargeError", "DecodeError", "SyntaxFault"]
