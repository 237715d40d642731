"""Pure expansion of $(VAR) in commands, arguments and values. `$$` is a literal dollar sign
(`third_party/forked/golang/expansion`).
"""

from collections.abc import Mapping, Sequence

from sampan.api import limits


def expand(text: str, *variables: Mapping[str, str], room: int = limits.EXPANDED_CHARACTERS) -> str:
    """Expand the references. The first mapping with the name applies. Unknown references are left as they are, and so
    are those after the values have used up `room` characters, which bounds the size of the result.
    """
    if "$" not in text:
        return text
    parts: list[str] = []
    at, last_close = 0, text.rfind(")")
    while (dollar := text.find("$", at)) >= 0:
        parts.append(text[at:dollar])
        at = dollar + 2
        following = text[dollar + 1 : at]
        if following == "$":
            parts.append("$")
        elif following == "(" and at <= last_close:
            close = text.index(")", at)
            value = _value(text[at:close], variables) if room > 0 else None
            parts.append(text[dollar : close + 1] if value is None else value)
            room -= len(parts[-1])
            at = close + 1
        else:
            parts.append("$")
            at = dollar + 1
    return "".join([*parts, text[at:]])


def _value(name: str, variables: Sequence[Mapping[str, str]]) -> str | None:
    for values in variables:
        if name in values:
            return values[name]
    return None


def expand_all(texts: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    expanded: list[str] = []
    room = limits.EXPANDED_CHARACTERS
    for text in texts:
        expanded.append(expand(text, variables, room=room))
        room -= len(expanded[-1])
    return expanded
