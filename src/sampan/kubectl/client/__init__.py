"""The connection of a command: kubeconfig, requests, streams, and the resource types that the server has.

The counterparts are `client-go/tools/clientcmd`, `client-go/rest`, `client-go/discovery` and
`kubectl/pkg/cmd/util`. Modules that a command may not need, such as those for streams, are imported late.
"""
