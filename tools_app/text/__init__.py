"""Pure functions over text and JSON values: strict JSON, redaction of secrets, removal of hidden characters.

Belongs here: functions from value to value that are used on both sides of a call.
Does not belong here: anything that knows tools, settings, the database or the network.
"""
