"""What can be wrong with the bytes of an object, in the words of the real server."""


class DecodeError(ValueError):
    """The bytes are no object of the type asked for."""


class SyntaxFault(DecodeError):
    """The bytes are not even JSON."""


__all__ = ["DecodeError", "SyntaxFault"]
