"""Codecs: between API objects, or their JSON values, and the forms they have on the wire and in the store."""
