"""OAuth at sources outside: the tokens of connections, and sign-ins that have begun."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from tools_app.models.connections import Connection


class UpstreamToken(models.Model):
    """The tokens of a connection, or of one caller through it, and the server that issued them.

    A token is only ever sent to that server and to the source. `version` increases with every new token: a writer
    names the version that it replaces, so that of two writers one loses.
    """

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="tokens")
    caller = models.CharField(
        max_length=150, blank=True, default="", db_default="", help_text="Id of the caller; empty: of all callers."
    )
    version = models.PositiveIntegerField(default=0, db_default=0)
    sealed = models.BinaryField("tokens", default=b"", editable=False)
    server = models.JSONField(
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        help_text="The authorization server, its endpoints, and the client as which the hub is known there.",
    )
    scopes = models.CharField(max_length=2000, blank=True, default="", db_default="")
    obtained_at = models.DateTimeField(null=True, blank=True)
    renew_at = models.DateTimeField(null=True, blank=True, help_text="From then on, a new token is requested.")
    expires_at = models.DateTimeField(null=True, blank=True)
    refreshing_until = models.DateTimeField(
        null=True, blank=True, help_text="One process requests a new token; others wait for it until then."
    )
    refreshing_by = models.CharField(max_length=32, blank=True, default="", db_default="")
    failures = models.PositiveIntegerField(default=0, db_default=0, help_text="Number of failures in a row.")
    retry_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True, default="", db_default="")
    needs_sign_in = models.BooleanField(
        default=False, db_default=False, help_text="The server accepts nothing any more until a person signs in again."
    )
    signed_in_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    signed_in_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "upstream token"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["connection", "caller"], name="upstream_token_once_per_caller")
        ]

    def __str__(self) -> str:
        return f"{self.connection_id} {self.caller}".strip()


class SignIn(models.Model):
    """A sign-in that has begun. It is used once, by the session of the user who began it."""

    state_hash = models.CharField(max_length=64, primary_key=True)
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="sign_ins")
    caller = models.CharField(max_length=150, blank=True, default="", db_default="")
    user = models.CharField(max_length=150)
    session_hash = models.CharField(max_length=64)
    sealed = models.BinaryField("secrets", editable=False)
    server = models.JSONField()
    redirect_uri = models.CharField(max_length=500)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "sign-in"

    def __str__(self) -> str:
        return f"{self.connection_id} {self.user}"
