"""The resources of the API: the declaration of one, the table of the built-in ones, and which of them a server serves
(`k8s.io/apimachinery/pkg/runtime`, `k8s.io/apiserver/pkg/server/storage`).
"""
