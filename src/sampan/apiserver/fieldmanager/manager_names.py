"""The name of a field manager: that of the request, or derived from the User-Agent."""

from functools import lru_cache

_MOST = 128


def manager_name(asked: str, user_agent: str) -> str:
    """Return the name. `asked` is the request's fieldManager, which has been validated."""
    return asked or _of_client(user_agent)


@lru_cache(maxsize=256)
def _of_client(user_agent: str) -> str:
    """Return the printable characters before the first slash, truncated to the maximum length in bytes."""
    name, size = "", 0
    for char in user_agent.partition("/")[0]:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > _MOST:
            break
        name += char
    return name
