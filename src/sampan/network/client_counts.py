"""Limits on the connections, or queries in progress, that the clients of a server have at the same time."""


class ClientCounts:
    """Counts the connections or queries of each client: at most `most` altogether, and `max_per_client` for one
    client."""

    def __init__(self, *, maximum: int, max_per_client: int) -> None:
        self._maximum, self._max_per_client = maximum, max_per_client
        self._counts: dict[str, int] = {}
        self.total = 0

    def __getitem__(self, client: str) -> int:
        return self._counts.get(client, 0)

    def enter(self, client: str) -> bool:
        """Count one more connection or query of the client, unless a limit is reached. Return whether it was
        counted."""
        if self.total >= self._maximum or self[client] >= self._max_per_client:
            return False
        self._counts[client] = self[client] + 1
        self.total += 1
        return True

    def leave(self, client: str) -> None:
        """Count one connection or query less, after `enter` has counted it."""
        self.total -= 1
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
