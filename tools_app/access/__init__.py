"""Who is calling (keys, tokens of an OAuth issuer, users, local processes), what they may do, and request rate limits.

Belongs here: turning a credential into a `Caller`, the table of actions, and counting requests.
Does not belong here: creating or changing keys (governance), and what a caller's toolset contains (catalog).
"""
