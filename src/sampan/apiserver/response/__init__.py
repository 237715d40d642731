"""What a client receives: the results of verbs, rendered as an object, list, table, Status or stream of watch events.

The counterparts are `k8s.io/apiserver/pkg/endpoints/handlers/responsewriters` and `handlers/response.go` beside it.
"""
