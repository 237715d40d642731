"""What tests need, as public API: conformance suites for every contract with more than one implementation, builders,
clusters in a test.

May import everything; nothing else in Sampan imports it.
"""
