"""The controllers of volumes: claims and volumes find each other, and nothing goes while it is in use.

`protection` and the files that begin with it keep volumes, claims and attributes classes that somebody uses from being
removed; `claims_of_pods` says which claims a pod uses.
"""
