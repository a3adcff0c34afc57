"""From an empty directory to a running hub: installation, system checks, and the registry for embedding.

Belongs here: what runs once at the start or at an upgrade.
Does not belong here: anything that a running hub does repeatedly.
"""
