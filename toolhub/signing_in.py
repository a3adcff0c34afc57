"""Protection against password guessing: lockout, rate limit, and the page that a locked-out client sees.

A name is locked per client address (django-axes), so that an attacker cannot lock out a user at another address.
An address that tries many names meets a second limit before any password is hashed, which is slow on purpose.
"""

from __future__ import annotations

import ipaddress
import math
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from tools_app import governance
from tools_app.access import limits


def address(request: HttpRequest) -> str | None:
    """Where a guess comes from. Of IPv6 it is the network, in which everybody may choose addresses freely."""
    try:
        found = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return None  # A socket file has none.
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(found) >> 64 << 64))


def locked(request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """Refuses for now, and has it in the audit trail."""
    name = str((credentials or {}).get("username") or "")
    governance.note_lock(name, address(request) or "", within=settings.AXES_COOLOFF_TIME)
    return _refused(request, settings.TOOLHUB_LOGIN_SECONDS)


class SlowedDown(MiddlewareMixin):
    """Counts what one address sends to sign in, under whichever names."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if request.method != "POST" or request.path_info != reverse("admin:login"):
            return None
        standing = limits.count_sign_in(request.META.get("REMOTE_ADDR", ""))
        if standing is None or not standing.wait:
            return None
        return _refused(request, math.ceil(standing.wait), slowed=True)


def _refused(request: HttpRequest, seconds: int, *, slowed: bool = False) -> HttpResponse:
    told = {"minutes": -(-seconds // 60), "slowed": slowed}
    page = render(request, "admin/locked.html", told, status=429)
    page["Retry-After"] = str(seconds)
    return page
