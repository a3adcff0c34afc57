"""URLs of processes that serve no pages, such as `runmcp`: what those of the site import is not installed there."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
