"""Keys, certificates and tokens: issuing, parsing and checking them, and the files that only their owner may read
(`client-go/util/cert`, `client-go/util/keyutil`).
"""
