"""Authentication: keys, tokens of an OAuth issuer, users, local processes; and request rate limits.

Belongs here: turning a credential into a `Caller`, and counting its requests.
Does not belong here: creating or changing keys (governance), and what a caller's toolset contains (catalog).
"""
