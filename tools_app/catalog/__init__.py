"""Which tools exist, for whom, whether each can be called, and how they are listed and searched.

Built from operators' records and the loaded tools; `catalog.fresh()` is the current snapshot.
Belongs here: reading and combining records; names, listings, search.
Does not belong here: running calls, changing records.
"""
