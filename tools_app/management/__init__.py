"""Commands for the shell: parse, make one call, print.

Belongs here: arguments and output of commands, and the files of clients that `connect` edits.
Does not belong here: rules that the admin, the API or MCP share.
"""
