"""The Ingress controller of `sampan up --ingress`. Its counterpart is ingress-nginx.

`routing_table` decides which backend serves a request, and is pure. `backends` resolves a backend to the addresses of
ready endpoints, `certificates` chooses the certificate of a TLS connection. `forwarder` sends a request to an endpoint,
`listener` accepts connections. `controller` follows the objects of the cluster for all nodes of the process; on each
node a server of `node_server` listens. `publication` has the objects by which clients reach the servers: a Service of
type LoadBalancer, whose EndpointSlices the servers keep, and the IngressClass.
"""
