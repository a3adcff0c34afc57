"""Who is calling, with which rights and limits: keys, tokens of an issuer, users, local processes, request rates.

Belongs here: turning a credential into a `Caller`, and counting its requests.
Does not belong here: creating or changing keys (governance), and what a caller's toolset contains (catalog).
"""
