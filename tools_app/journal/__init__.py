"""What is recorded of calls, aggregated into figures, and deleted by retention.

One thread writes the journal; its commits also add to the figures, the error groups and the idempotency replies.
Belongs here: rows of calls, errors, refusals, figures, leases of processes, retention.
Does not belong here: deciding whether or how a call runs.
"""
