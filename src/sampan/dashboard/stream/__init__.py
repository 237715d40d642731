"""The stream of a page: one WebSocket that multiplexes its subscriptions.

`connection` reads the page's messages and sends those of its subscriptions; `subscription` follows one list by list and
watch; `changes` coalesces events, so that a page that reads slowly gets the latest state and costs bounded memory;
`rows` reads tables and lists of objects.
"""

from sampan.dashboard.stream.connection import StreamConnection

__all__ = ["StreamConnection"]
