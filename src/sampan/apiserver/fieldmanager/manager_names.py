"""What a manager is called: as the request says, or as its client calls itself."""

from functools import lru_cache

_MOST = 128


def manager_name(asked: str, user_agent: str) -> str:
    """`asked`: the request's fieldManager, which is known to be a good name."""
    return asked or _of_client(user_agent)


@lru_cache(maxsize=256)
def _of_client(user_agent: str) -> str:
    """What comes before the first slash, without what cannot be printed, cut where it gets too long."""
    name, size = "", 0
    for char in user_agent.partition("/")[0]:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > _MOST:
            break
        name += char
    return name


__all__ = ["manager_name"]
