"""The walk, on a real Redmine."""

from tests.packs.redmine.walk import *  # noqa: F403
