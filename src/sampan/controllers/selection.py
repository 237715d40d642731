"""Which controllers run: the words of --controllers."""

from collections.abc import Mapping, Sequence

ALL = "*"


class UnknownController(ValueError):
    """--controllers names something that there is not."""


def chosen(words: Sequence[str], known: Mapping[str, bool], aliases: Mapping[str, str]) -> list[str]:
    """The names that `words` switch on, in the order of `known`, which tells of each name whether `*` includes it.

    `name` switches one on, `-name` off, `*` all that are on unless told; the first word about a name counts. Old names
    are accepted as `aliases`.
    """
    said: dict[str, bool] = {}
    for word in words:
        if word == ALL:
            continue
        is_on = not word.startswith("-")
        name = word.removeprefix("-")
        name = aliases.get(name, name)
        if name not in known:
            raise UnknownController(f'"{name}" is not in the list of known controllers')
        said.setdefault(name, is_on)
    has_star = ALL in words
    return [name for name, by_default in known.items() if said.get(name, has_star and by_default)]
