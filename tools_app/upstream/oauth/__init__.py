"""OAuth to sources outside: where their authorization server is, as which client the hub is known there, and tokens.

    discovery      from a source to its authorization server (RFC 9728, 8414)
    clients        the client: entered by an operator, described by a document, or registered (RFC 7591)
    protocol       requests to the authorization server, and what it answers
    tokens         the table of tokens: one process renews, the others wait for its version
    bearer         the token of one transport

Belongs here: the protocol, and renewing tokens. Does not belong here: who may sign in (governance), and pages (admin).
"""
