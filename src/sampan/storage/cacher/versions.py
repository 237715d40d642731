"""The meaning of resourceVersion and resourceVersionMatch for a read."""

from dataclasses import dataclass
from enum import Enum

from sampan.storage.cacher.errors import InvalidVersion

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
_MOST = 2**64 - 1


class Rule(Enum):
    CONSISTENT = "consistent"
    """Not older than the store was when the read arrived."""
    ANY = "any"
    """Any state of the cache."""
    NOT_OLDER = "not older"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Wanted:
    rule: Rule
    revision: int = 0


def parse_version(text: str) -> int:
    """Return the version as an integer, 0 for an empty string; raise `InvalidVersion`."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise _invalid(text, "invalid syntax")
    number = int(text) if len(text) <= 32 else _MOST + 1
    if number > _MOST:
        raise _invalid(text, "value out of range")
    return number


def wanted_of_get(resource_version: str) -> Wanted:
    if not resource_version:
        return Wanted(Rule.CONSISTENT)
    revision = parse_version(resource_version)
    return Wanted(Rule.NOT_OLDER, revision) if revision else Wanted(Rule.ANY)


def wanted_of_list(resource_version: str, match: str, limit: int) -> Wanted:
    """Return the requirement of a list without a continue token whose options are valid.

    A resource version with a limit and without a match rule means exactly that version.
    """
    if not resource_version:
        return Wanted(Rule.CONSISTENT)
    try:
        revision = parse_version(resource_version)
    except InvalidVersion as error:
        raise InvalidVersion(f"invalid resource version: {error}") from None
    if revision == 0:
        return Wanted(Rule.ANY)
    if match == EXACT or (not match and limit > 0):
        return Wanted(Rule.EXACT, revision)
    return Wanted(Rule.NOT_OLDER, revision)


def _invalid(text: str, why: str) -> InvalidVersion:
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return InvalidVersion(f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}")
