"""From an empty directory to a running hub: installation, checks, backup and restore, the registry for embedding.

Belongs here: what runs once at the start or at an upgrade, and what makes the whole state of a hub a file and back.
Does not belong here: anything else that a running hub does repeatedly.
"""
