"""Services for every room above: the hub's state, settings, database threads and reads, secrets at rest, log lines.

Belongs here: access to one such service, without knowledge of tools.
Does not belong here: rules about tools, callers or calls.
"""
