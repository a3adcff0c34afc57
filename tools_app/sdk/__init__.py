"""The API for authors of tools, and what a tool is: definitions, schemas, errors, context, limits.

`toolhub` re-exports the names that authors use; shipped packs import the same ones from these modules.
Belongs here: what a tool declares, what it receives, what it can return or raise.
Does not belong here: how calls are run, stored or listed. Nothing here imports Django, an HTTP library or mcp.
"""
