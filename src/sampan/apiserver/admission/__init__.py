"""Admission: what may change or refuse an object after it was decoded and before it is stored, one file per plug-in.

`chain` holds the contract and runs the plug-ins in order; `plugins` is the table of those that are on.
"""
