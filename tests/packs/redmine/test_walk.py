"""The walk, on our own Redmine."""

from tests.packs.redmine.walk import *  # noqa: F403
from tests.packs.redmine.walk_copies import *  # noqa: F403
from tests.packs.redmine.walk_documents import *  # noqa: F403
from tests.packs.redmine.walk_members import *  # noqa: F403
from tests.packs.redmine.walk_names import *  # noqa: F403
from tests.packs.redmine.walk_plans import *  # noqa: F403
from tests.packs.redmine.walk_reasons import *  # noqa: F403
from tests.packs.redmine.walk_sums import *  # noqa: F403
