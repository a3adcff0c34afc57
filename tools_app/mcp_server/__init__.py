"""The Model Context Protocol, in both of its eras: with sessions, and stateless; over stdio and HTTP.

Belongs here: messages, sessions, notifications, subscriptions, and the hub's own texts for agents.
Does not belong here: rules that REST, the admin or commands share. This room knows neither of them.
"""
