"""Redmine: issues, files, wiki, projects, members, time and users of one or several installations.

    issues · copies · notes · relations · watchers · attachments · wiki   the tools, one module per noun
    projects · planning · members · time_entries · sums · users · lists · search
    prompts      prompts for agents
    arguments    argument types that tools share, and their validation
    lookups      names to ids
    filters      filters of issues, and those that Redmine silently ignores
    custom_fields  custom fields and their ids
    account      GET requests and checks of their responses
    identity     the user of the API key
    memory       a cache for each account
    writing      changes, and their verification
    shapes       output schemas, which also filter responses
    xml          answers as XML
    refusals     error responses as helpful errors
    reasons      why Redmine refused a request or ignored a change

https://www.redmine.org/projects/redmine/wiki/Rest_api
"""

from __future__ import annotations

from tools_app.packs.redmine.refusals import explain_refusal
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
    # Elsewhere Redmine treats a wrong key as an anonymous user, without an error; only this path refuses it.
    probe="/users/current.json",
    suffix=".json",
    explain=explain_refusal,
    options=(USER_ADMINISTRATION,),
)

pack = Pack(
    "redmine",
    version="1.2.0",
    title="Redmine",
    description="Issues, files, wiki, projects, members, spent time and users of Redmine.",
    connection=REDMINE,
    untrusted=True,
    text_form=TextForm("xml", document, escapes=True),
)
