"""Several streams over one connection that was an HTTP request: what exec, attach and port-forward speak.

`wire` is the connection as bytes. `websocket_frames` and `spdy_frames` are the two framings, pure; `websocket` and
`spdy` speak them over a wire, from either side. `channels` makes streams of a WebSocket's numbered messages, `tunnel`
makes a wire of its messages, so that SPDY can be spoken inside. `remote_command` and `port_forward` serve with any of
these; `remote_command_client` and `port_forward_client` are their other side. `handshake` agrees on which one it is,
`takeover` takes a connection away from aiohttp's server, `upgrading` asks a server for one. Nothing here knows of pods.
"""
