"""Which tools exist, for whom, whether each can be called, and how they are listed and found.

Built from the records of operators and the tools that are loaded; `catalog.fresh()` is the snapshot as of now.
Belongs here: reading and combining what is on record; names, listings, search.
Does not belong here: running calls, changing records.
"""
