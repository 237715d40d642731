"""The validation tags of fields: parsing, and the table of all types."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import msgspec

FieldTags = Mapping[str, Sequence[str]]
_NAME = re.compile(r"(\w+)(?:\(([^)]*)\))?(?:=(.*))?")
_WRAPPERS = frozenset({"eachKey", "eachVal", "ifDisabled", "ifEnabled", "ifMode", "item", "subfield"})
"""The tags whose value is another tag."""
_LEVELS = ("alpha", "beta")
_OF_TYPE = "type "
"""The prefix of tags that were published with the type of the field."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag such as `maxItems=4`, or one that applies another tag: `eachVal=format=k8s-short-name`."""

    name: str
    argument: str = ""
    value: str = ""
    payload: "Tag | None" = None
    level: str = ""
    """The maturity: alpha, beta, or nothing for a tag that has it no more."""

    @property
    def is_alpha(self) -> bool:
        """Whether errors are not reported. An alpha tag can still end the validation of its field."""
        return self.level == "alpha"


def parse(text: str) -> Tag:
    level, _, tag = text.removeprefix(_OF_TYPE).partition(" ")
    return _parse(tag, level) if level in _LEVELS else _parse(text.removeprefix(_OF_TYPE), "")


def _parse(text: str, level: str) -> Tag:
    match = _NAME.fullmatch(text)
    if match is None:
        raise ValueError(f"malformed validation tag: {text}")
    name, argument, value = match[1], match[2] or "", match[3] or ""
    payload = _parse(value, level) if name in _WRAPPERS else None
    return Tag(name, argument, "" if payload else value, payload, level)


def parse_field(texts: Sequence[str]) -> list[Tag]:
    """Return the tags of a field in the order in which they are checked: sorted by name, those of its type last.

    For the order, `alpha` and `beta` are the names of tags that apply another one.
    """
    return [parse(text) for text in sorted(texts, key=_sort_key)]


def _sort_key(text: str) -> tuple[bool, str]:
    return text.startswith(_OF_TYPE), text.removeprefix(_OF_TYPE).partition(" ")[0].partition("=")[0].partition("(")[0]


@cache
def load_table() -> dict[str, FieldTags]:
    """Return the tags by the published name of the type and the name of the field."""
    data = resources.files("sampan.api").joinpath("data/validation_tags.json").read_bytes()
    table: dict[str, FieldTags] = msgspec.json.decode(data, type=dict[str, dict[str, list[str]]])
    return table
