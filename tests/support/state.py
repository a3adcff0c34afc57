"""Parts of the current hub begin anew, as they do in a new process."""

from __future__ import annotations

from tools_app.access.issuer import IssuerKeys
from tools_app.base import hub
from tools_app.catalog.catalog import CatalogState
from tools_app.sources.sources import Sources


def rebuild_catalog() -> None:
    """For what no counter in the database reports: settings and environment variables."""
    hub.current().drop(CatalogState)


def find_sources_again() -> None:
    hub.current().drop(Sources)


def fetch_issuer_keys_again() -> None:
    hub.current().drop(IssuerKeys)
