"""The walk, on our own Redmine."""

from tests.packs.redmine.walk import *  # noqa: F403
