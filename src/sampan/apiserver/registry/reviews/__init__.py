"""Review kinds: requests about users and permissions that are answered in the response and not stored.

The counterparts are `pkg/registry/authentication` and `pkg/registry/authorization`.
"""
