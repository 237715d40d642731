"""The server part of the dashboard: the page, sessions, and views that are computed in the server.

The dashboard acts with the rights of the person who logged in: every Kubernetes request goes through the `UserApi` of
their session (`sampan.machinery.client.user_api`), in the process of the API server or over HTTP to another cluster.
It has no rights of its own and keeps no state but sessions. The page itself is TypeScript in `dashboard/web`, built
into `static/`. docs/dashboard.md has the protocol and the security model.

`site` routes requests; `sessions`, `login` and `request_checks` decide who may send them; `pass_through` forwards
Kubernetes requests; `stream` multiplexes the subscriptions of a page over one WebSocket.

The package uses `sampan.machinery` and `sampan.api` only; `sampan.cluster` connects it to an API server.
"""
