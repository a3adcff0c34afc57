"""Pure functions over text and JSON values: strict JSON, redaction of secrets, removal of hidden characters.

Belongs here: what needs a value and returns a value, and is used on both sides of a call.
Does not belong here: anything that knows tools, settings, the database or the network.
"""
