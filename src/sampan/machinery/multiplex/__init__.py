"""Several streams over one connection that started as an HTTP request: the protocols of exec, attach and port-forward.

`wire` is the connection as bytes. `websocket_frames` and `spdy_frames` are the two framings, without I/O; `websocket`
and `spdy` use them over a wire, on either side. `channels` provides streams over a WebSocket's numbered messages,
`tunnel` provides a wire over its messages for SPDY inside it. `remote_command` and `port_forward` are the server side
of any of these; `remote_command_client` and `port_forward_client` are the client side. `handshake` negotiates the
protocol, `takeover` takes a connection from aiohttp's server, `upgrading` requests one from a server. Nothing here
depends on pods. The Kubernetes counterparts are `apimachinery/pkg/util/httpstream`, `client-go/tools/remotecommand` and
`tools/portforward`.
"""
