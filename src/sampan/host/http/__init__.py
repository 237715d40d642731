"""HTTP/1.1 for servers: everything between the bytes of a connection and the handler of a request.

`head` and `body` parse requests, `request` and `response` are what handlers see, `connection` has the states of a
connection, and `port` opens a port for a handler. Nothing here depends on Kubernetes or on a library that is slow to
import.
"""

from sampan.host.http.body import BadBody, IncomingBytes
from sampan.host.http.connection import Handler, HttpConnection, HttpConnections, State, UpgradedWire
from sampan.host.http.head import BadHttpRequest, EdgeLimits
from sampan.host.http.port import serve_http
from sampan.host.http.request import HttpRequest
from sampan.host.http.response import HttpResponse, StreamResponse, date_line, phrase_of

__all__ = [
    "BadBody",
    "BadHttpRequest",
    "EdgeLimits",
    "Handler",
    "HttpConnection",
    "HttpConnections",
    "HttpRequest",
    "HttpResponse",
    "IncomingBytes",
    "State",
    "StreamResponse",
    "UpgradedWire",
    "date_line",
    "phrase_of",
    "serve_http",
]
