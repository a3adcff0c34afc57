"""Connections: accounts at upstreams, with an encrypted secret."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now

from tools_app.models.tools import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from tools_app.models.toolsets import LIKE_A_TOOL
from tools_app.sdk.accounts import MOST_URL


class Connection(models.Model):
    """An account of the kind that a pack needs, or at a source outside. That of the environment is not stored."""

    class Form(models.TextChoices):
        PACK = "", "as its pack says"
        HEADER = "header", "headers"
        BEARER = "bearer", "bearer token"
        BASIC = "basic", "user and password"
        QUERY = "query", "query parameters"
        ENVIRONMENT = "environment", "environment variables"
        OAUTH = "oauth", "OAuth: a person signs in"
        CLIENT_CREDENTIALS = "client_credentials", "OAuth: client id and secret"

    # Forms whose tokens the hub requests itself (upstream/oauth).
    OAUTH: ClassVar = (Form.OAUTH, Form.CLIENT_CREDENTIALS)

    name = models.CharField(max_length=64, unique=True, validators=[LIKE_A_TOOL])
    pack = models.CharField("source", max_length=64, help_text="The source whose tools use this connection.")
    form = models.CharField(
        max_length=32,
        blank=True,
        choices=Form.choices,
        default=Form.PACK,
        db_default=Form.PACK,
        help_text="How the secret is sent.",
    )
    names = models.JSONField(
        default=list,
        blank=True,
        editable=False,
        db_default=models.Value([], models.JSONField()),
        help_text="Names of the headers, parameters or variables that the secret consists of.",
    )
    references = models.JSONField(
        default=list,
        blank=True,
        editable=False,
        db_default=models.Value([], models.JSONField()),
        help_text="Variables and files that the secret refers to.",
    )
    url = models.CharField(
        "URL", blank=True, max_length=MOST_URL, help_text="Base URL, e.g. https://redmine.example.org"
    )
    sealed = models.BinaryField("secret", editable=False)
    read_only = models.BooleanField(default=False, db_default=False, help_text="Tools that write are refused.")
    allow_http = models.BooleanField(
        "allow plain http",
        default=False,
        db_default=False,
        help_text="Allow unencrypted http:// to other machines. Traffic, including the key, can be read in transit.",
    )
    timeout_ms = models.PositiveIntegerField(
        "time limit (ms)",
        null=True,
        blank=True,
        validators=[MinValueValidator(MIN_TIMEOUT_MS), MaxValueValidator(MAX_TIMEOUT_MS)],
        help_text="Per request. Empty: only the time limit of the call applies.",
    )
    enabled = models.BooleanField(
        default=True, db_default=True, help_text="Off: all calls through this connection are refused."
    )
    options = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="Options that its source declares.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True, db_default=Now())
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    healthy = models.BooleanField(null=True, editable=False)
    health = models.CharField(max_length=500, blank=True, default="", db_default="", editable=False)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [models.CheckConstraint(condition=~models.Q(name=""), name="connection_has_a_name")]

    def __str__(self) -> str:
        return self.name
