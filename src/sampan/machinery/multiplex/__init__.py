"""Several streams over one connection that started as an HTTP request: the protocols of exec, attach and port-forward.

`wire` is the connection as bytes. `websocket_frames` and `spdy_frames` are the two framings, without I/O; `websocket`
and `spdy` use them over a wire, on either side. `channels` provides streams over a WebSocket's numbered messages.
`remote_command` and `port_forward` are both sides of exec, attach and port-forward over any of these. `handshake`
negotiates the protocol; `upgrade` requests an upgraded connection from a server, takes one over from aiohttp's server,
and tunnels SPDY through the messages of a WebSocket. Nothing here depends on pods. The Kubernetes counterparts are
`apimachinery/pkg/util/httpstream`, `client-go/tools/remotecommand` and `tools/portforward`.
"""
