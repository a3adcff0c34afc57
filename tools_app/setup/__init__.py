"""From an empty directory to a running hub: installation, checks, backup and restore, clients, embedding.

Belongs here: what runs once at the start or at an upgrade, and what makes the whole state of a hub a file and back
(a backup, or the decisions of operators as YAML), and how clients are told where the hub is.
Does not belong here: anything else that a running hub does repeatedly.
"""
