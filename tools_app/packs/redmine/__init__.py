"""Redmine: issues, projects, spent time and users of one or several installations.

    issues · watchers · projects · time_entries · users · lists · search   the tools, a module a noun
    prompts      jobs that an agent can be given
    arguments    what several tools take, and what is refused before anything is sent
    lookups      from names to ids
    filters      which issues are looked for, and filters that Redmine passes over in silence
    custom_fields  which there are, and their ids
    account      asking, and whether the answer is one
    identity     whose key it is
    memory       what an account has told, for a while
    writing      changing, and reading back what became of it
    shapes       what is shown of an answer, which is the output schema, too
    xml          the text of an answer
    refusals     Redmine's refusals in words that help
    reasons      what is behind a refusal, or a change that Redmine ignored

https://www.redmine.org/projects/redmine/wiki/Rest_api
"""

from __future__ import annotations

from tools_app.packs.redmine.refusals import explained
from tools_app.packs.redmine.xml import document
from tools_app.sdk.accounts import ConnectionKind, ConnectionOption
from tools_app.sdk.pack import Pack, TextForm

USER_ADMINISTRATION = ConnectionOption(
    "user_administration",
    "Whether users of this Redmine may be created, changed and deleted, by administrators of the hub.",
)
REDMINE = ConnectionKind(
    "Redmine",
    url_variable="REDMINE_HOST",
    secret_variable="REDMINE_API_KEY",  # noqa: S106
    header="X-Redmine-API-Key",
    # A wrong key reads what is public, as if nothing were wrong with it: only here it is refused.
    probe="/users/current.json",
    suffix=".json",
    explain=explained,
    options=(USER_ADMINISTRATION,),
)

pack = Pack(
    "redmine",
    version="1.0.0",
    title="Redmine",
    description="Issues, projects, spent time and users of Redmine.",
    connection=REDMINE,
    untrusted=True,
    text_form=TextForm("xml", document, escapes=True),
)
