"""Selection of the enabled controllers from the values of --controllers."""

from collections.abc import Mapping, Sequence

ALL = "*"


class UnknownController(ValueError):
    """--controllers names a controller that does not exist."""


def chosen(words: Sequence[str], known: Mapping[str, bool], aliases: Mapping[str, str]) -> list[str]:
    """Return the names that `words` enable, in the order of `known`, which maps each name to whether `*` includes it.

    `name` enables a controller, `-name` disables it, and `*` enables those that are on by default. The first word about
    a name wins. Former names are accepted as `aliases`.
    """
    switches: dict[str, bool] = {}
    for word in words:
        if word == ALL:
            continue
        is_on = not word.startswith("-")
        name = word.removeprefix("-")
        name = aliases.get(name, name)
        if name not in known:
            raise UnknownController(f'"{name}" is not in the list of known controllers')
        switches.setdefault(name, is_on)
    has_star = ALL in words
    return [name for name, by_default in known.items() if switches.get(name, has_star and by_default)]
