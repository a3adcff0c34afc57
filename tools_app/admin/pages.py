"""Pages of the admin that belong to no record, at addresses of their own."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.urls import URLPattern, path


def add_to(site: AdminSite) -> None:
    """Through the theme's hook for such pages; those that a project has added stay."""
    others = getattr(site, "extra_urls", list)

    def extra_urls() -> list[URLPattern]:
        return [*_urls(site), *others()]

    site.extra_urls = extra_urls  # type: ignore[attr-defined]  # the theme looks for it


def _urls(site: AdminSite) -> list[URLPattern]:
    # Here, as agents over stdio import the admin without its pages, and wait for it.
    from tools_app.admin import search_page, usage_page

    return [
        path("find/", search_page.view(site), name="tools_app_search"),
        path("usage/", usage_page.view(site), name="tools_app_usage"),
    ]
