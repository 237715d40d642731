"""Time zones by IANA names, as the API accepts them."""

import re
import zoneinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_is_part = re.compile(r"[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}").fullmatch


class UnknownTimeZone(ValueError):
    """There is no such time zone; the message is that of kube-apiserver."""


def zone(name: str) -> ZoneInfo:
    """Return the time zone with exactly this name. Raise UnknownTimeZone."""
    if not all(_is_part(part) and part not in (".", "..") for part in name.split("/")):
        raise UnknownTimeZone(f"unknown time zone {name}")
    return _zone(name)


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError):
        raise UnknownTimeZone(f"unknown time zone {name}") from None
    except ValueError:
        raise UnknownTimeZone("malformed time zone information") from None
