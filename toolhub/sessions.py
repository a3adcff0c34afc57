"""Ends sessions that were not used for a while, and records where those that are used come from."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AnonymousUser
from django.db import DatabaseError
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from tools_app import governance
from tools_app.admin.live.pages import HEADER


class FollowedSessions(MiddlewareMixin):
    """After the middleware of sessions, users and messages."""

    def process_request(self, request: HttpRequest) -> None:
        session: Any = request.session
        is_by_person = HEADER not in request.headers
        if session.session_key is None or governance.follow_session(session, is_by_person=is_by_person):
            return
        key = session.session_key
        try:
            governance.end_idle_session(key)
            session.flush()
        except DatabaseError:
            # It is not used, whether or not it could be deleted.
            request.session = type(session)()
        request.user = AnonymousUser()
        messages.info(request, _("Your session has ended, as it was not used for a while. Sign in again."))
