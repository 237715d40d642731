"""Several streams over one connection that started as an HTTP request: the protocols of exec, attach and port-forward.

`wire` is the connection as bytes. `websocket` and `spdy` are the two protocols over a wire, on either side, and
`spdy_frames` the frames of the latter, without I/O. `channels` provides streams over a WebSocket's numbered messages.
`remote_command` and `port_forward` are both sides of exec, attach and port-forward over any of these. `handshake`
negotiates the protocol; `upgrade` requests an upgraded connection from a server, accepts one on the side of a server,
and tunnels SPDY through the messages of a WebSocket. Nothing here depends on pods. The Kubernetes counterparts are
`apimachinery/pkg/util/httpstream`, `client-go/tools/remotecommand` and `tools/portforward`.
"""
