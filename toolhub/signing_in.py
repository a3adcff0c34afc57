"""What somebody is told who has guessed a password too often."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from tools_app import governance


def locked(request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """Refuses for now, and has it in the audit trail."""
    seconds = settings.TOOLHUB_LOGIN_SECONDS
    name, address = str((credentials or {}).get("username") or ""), request.META.get("REMOTE_ADDR", "")
    governance.note_lock(name, address, within=settings.AXES_COOLOFF_TIME)
    page = render(request, "admin/locked.html", {"minutes": -(-seconds // 60)}, status=429)
    page["Retry-After"] = str(seconds)
    return page
