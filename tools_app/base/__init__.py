"""Services of the process for every room above: settings, database threads and reads, secrets at rest, log lines.

Belongs here: access to one service of the process, without knowledge of tools.
Does not belong here: rules about tools, callers or calls.
"""
