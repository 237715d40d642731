"""What every component shares: clock, errors, patching, clients, informers, work queues.

May import `sampan.api`. May not know the store, the API server, or any component.
"""
