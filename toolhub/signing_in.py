"""Protection against password guessing: lockout and rate limit.

A name is locked for one address (django-axes), so that an attacker elsewhere cannot lock out the user. A rate limit per
address covers many names, and applies before the slow password hash is computed.
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
    """The client's address; for IPv6 its /64 network, in which a client can choose any address."""
    try:
        ip_address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return None  # A Unix socket has no address.
    if isinstance(ip_address, ipaddress.IPv4Address):
        return str(ip_address)
    if ip_address.ipv4_mapped is not None:
        return str(ip_address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(ip_address) >> 64 << 64))


def locked(request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """Refuse the attempt, and record the lock in the audit trail."""
    name = str((credentials or {}).get("username") or "")
    governance.note_lock(name, address(request) or "", within=settings.AXES_COOLOFF_TIME)
    return _refused(request, settings.TOOLHUB_LOGIN_SECONDS)


class SlowedDown(MiddlewareMixin):
    """Rate limit for attempts to sign in, per address and for all names."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if request.method != "POST" or request.path_info != reverse("admin:login"):
            return None
        status = limits.count_sign_in(request.META.get("REMOTE_ADDR", ""))
        if status is None or not status.wait:
            return None
        return _refused(request, math.ceil(status.wait), slowed=True)


def _refused(request: HttpRequest, seconds: int, *, slowed: bool = False) -> HttpResponse:
    context = {"minutes": -(-seconds // 60), "slowed": slowed}
    page = render(request, "admin/locked.html", context, status=429)
    page["Retry-After"] = str(seconds)
    return page
