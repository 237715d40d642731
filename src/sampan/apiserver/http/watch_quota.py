"""How many watches each user has open, and how long their selectors are: both take memory for as long as a watch lasts.

The API server of Kubernetes has no such limit. Members of system:masters are not limited.
"""

from __future__ import annotations

from collections import Counter

from sampan.api import limits
from sampan.apiserver.request.call import MASTERS, Call
from sampan.machinery import errors


class WatchQuota:
    def __init__(self) -> None:
        self._watches: Counter[str] = Counter()
        self._characters: Counter[str] = Counter()
        """The characters of the long selectors of each user's watches; short ones are shared by all users."""

    def open(self, call: Call) -> OpenWatch:
        """Count a watch of the request's user. Raise TooManyRequests if that user has too many."""
        user, query = call.user.name, call.query
        texts = (query.get("labelSelector"), query.get("fieldSelector")) if query else ()
        characters = sum(len(text) for text in texts if len(text) > limits.INLINE_SELECTOR_CHARACTERS)
        if MASTERS not in call.user.groups:
            if self._watches[user] >= limits.WATCHES_PER_USER:
                raise errors.too_many_requests(f"user {user} has too many watches open", retry_after_s=1)
            if characters and self._characters[user] + characters > limits.WATCH_SELECTOR_CHARACTERS_PER_USER:
                text = f"the selectors of the watches that user {user} has open are too long"
                raise errors.too_many_requests(text, retry_after_s=1)
        self._add(user, 1, characters)
        return OpenWatch(self, user, characters)

    def close(self, watch: OpenWatch) -> None:
        self._add(watch.user, -1, -watch.characters)

    def _add(self, user: str, watches: int, characters: int) -> None:
        for counter, number in ((self._watches, watches), (self._characters, characters)):
            counter[user] += number
            if not counter[user]:
                del counter[user]


class OpenWatch:
    """A watch that counts for its user until it is closed."""

    __slots__ = ("_quota", "characters", "user")

    def __init__(self, quota: WatchQuota, user: str, characters: int) -> None:
        self._quota, self.user, self.characters = quota, user, characters

    def close(self) -> None:
        self._quota.close(self)
