"""$(VAR) in commands, arguments and values: replaced where the variable is known, `$$` is a dollar. Pure."""

import re
from collections.abc import Mapping, Sequence

_REFERENCE = re.compile(r"\$(?:(?P<escape>\$)|\((?P<name>[^)]*)\))")


def expand(text: str, *variables: Mapping[str, str]) -> str:
    """The first of the mappings that knows a name counts; what nobody knows stays as it is written."""
    if "$" not in text:
        return text

    def replaced(match: re.Match[str]) -> str:
        if match["escape"]:
            return "$"
        name = match["name"]
        for known in variables:
            if name in known:
                return known[name]
        return match[0]

    return _REFERENCE.sub(replaced, text)


def expand_all(texts: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    return [expand(text, variables) for text in texts]


__all__ = ["expand", "expand_all"]
