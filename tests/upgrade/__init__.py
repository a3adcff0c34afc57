"""Hubs of the oldest version from which an upgrade has to work, upgraded to this one: `make test-upgrade`.

BASE names that version, as a commit. Its own code, with its own packages, fills a hub; `toolhub serve` of this checkout
then finds that hub.
"""
