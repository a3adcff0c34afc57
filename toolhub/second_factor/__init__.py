"""Second factors of local users: codes of an authenticator app, and recovery codes (decision 74).

`factors` changes and verifies them, in the table of allauth; `views` has the pages. People who sign in at a provider
have their second factor there.
"""
