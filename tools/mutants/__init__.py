"""Mutation tests: small changes of the source, one at a time, that some test must notice."""
