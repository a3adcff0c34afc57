"""Sources: where tools come from, as rows. Decisions are columns of `Source`, observations are in `SourceStatus`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now

from tools_app.base import conf
from tools_app.models.tools import PolicyColumns, policy_constraints
from tools_app.sdk.outside import Origin

PREFIX: Final = RegexValidator(
    r"\A[a-z][a-z0-9]{1,15}\Z", "2 to 16 lowercase letters and numbers, the first a letter, without a separator."
)
# The epoch of rows that an upgrade made from earlier records; a sync adopts their tools.
UPGRADED: Final = 0


class Source(PolicyColumns):
    """One origin of tools. The name is never reused: a removed source stays as a row."""

    class Kind(models.TextChoices):
        SHIPPED = "shipped", "shipped pack"
        PLUGIN = "plugin", "installed package"
        APP = "app", "Django app"
        FOLDER = "folder", "tools directory"
        CODE = "code", "code"
        MCP_HTTP = "mcp_http", "MCP server (HTTP)"
        MCP_STDIO = "mcp_stdio", "MCP server (command)"
        OPENAPI = "openapi", "OpenAPI document"

    class Trust(models.TextChoices):
        DEFAULT = "", "default of the source type"
        AUTO = "auto", "approve automatically"
        HOLD_CHANGES = "hold_changes", "hold changes"
        HOLD_ALL = "hold_all", "hold everything"

    class Start(models.TextChoices):
        ON_DEMAND = "on_demand", "on demand"
        ALWAYS = "always", "always"

    OUTSIDE: ClassVar = (Kind.MCP_HTTP, Kind.MCP_STDIO, Kind.OPENAPI)

    name = models.CharField(max_length=200, unique=True)
    prefix = models.CharField(max_length=16, blank=True, default="", db_default="", validators=[PREFIX])
    kind = models.CharField("source type", max_length=16, choices=Kind.choices)
    location = models.CharField(
        max_length=2000,
        blank=True,
        default="",
        db_default="",
        help_text="Module, directory or URL. Contains no secrets.",
    )
    command = models.JSONField(
        default=list,
        blank=True,
        db_default=models.Value([], models.JSONField()),
        help_text="Program and arguments of a child process. Contains no secrets.",
    )
    epoch = models.PositiveIntegerField(
        default=1,
        db_default=1,
        help_text="Increases when the origin changes: earlier approvals do not apply to it. "
        "0: made by an upgrade, origin not known.",
    )
    reconnects = models.PositiveIntegerField(
        default=0,
        db_default=0,
        editable=False,
        help_text="Increases when an operator reconnects: connections and processes from before it are ended.",
    )
    trust = models.CharField(max_length=16, blank=True, default="", db_default="", choices=Trust.choices)
    enabled = models.BooleanField(default=True, db_default=True, help_text="Off: all calls are refused.")
    start = models.CharField(max_length=16, choices=Start.choices, default=Start.ON_DEMAND, db_default=Start.ON_DEMAND)
    per_session = models.BooleanField(
        default=False, db_default=False, help_text="Every client session has an upstream session of its own."
    )
    declares = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="Client capabilities that are declared to the upstream.",
    )
    failure_rule = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="Which responses count as failures although the upstream does not mark them.",
    )
    connection = models.ForeignKey(
        "Connection", on_delete=models.RESTRICT, null=True, blank=True, related_name="sources"
    )
    internal = models.BooleanField(
        "internal address",
        default=False,
        db_default=False,
        help_text="The server may have a private address, and may be reached over plain http.",
    )
    pin_defaults = models.BooleanField(
        "pin defaults",
        default=True,
        db_default=True,
        help_text="Off: a changed default of a parameter needs no approval, for servers whose defaults change by "
        "themselves.",
    )
    approved_instructions = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Hash of the instructions that are sent to agents.",
    )
    created_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    removed_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(name=""), name="source_has_a_name"),
            models.UniqueConstraint(fields=["prefix"], condition=~models.Q(prefix=""), name="source_prefix_once"),
            models.CheckConstraint(
                condition=~models.Q(kind__in=["mcp_http", "mcp_stdio", "openapi"])
                | (~models.Q(prefix="") & models.Q(name=models.F("prefix"))),
                name="source_outside_is_named_by_its_prefix",
            ),
            models.CheckConstraint(
                condition=models.Q(models.Q(kind="mcp_stdio"), ~models.Q(command=[]))
                | models.Q(~models.Q(kind="mcp_stdio"), models.Q(command=[])),
                name="source_command_is_for_stdio",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    kind__in=["shipped", "plugin", "app", "folder", "code", "mcp_http", "mcp_stdio", "openapi"]
                ),
                name="source_kind_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(trust__in=["", "auto", "hold_changes", "hold_all"]), name="source_trust_is_known"
            ),
            models.CheckConstraint(condition=models.Q(start__in=["on_demand", "always"]), name="source_start_is_known"),
            *policy_constraints("source"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_outside(self) -> bool:
        """Whether the tools run elsewhere, and other people write what they say."""
        return self.kind in self.OUTSIDE

    @property
    def origin(self) -> Origin | None:
        """What a connection to a source outside depends on; None for Python."""
        if not self.is_outside:
            return None
        return Origin(
            name=self.name,
            kind=self.kind,
            epoch=self.epoch,
            reconnects=self.reconnects,
            location=self.location,
            command=tuple(self.command),
            starts_always=self.start == self.Start.ALWAYS,
            per_session=self.per_session,
            internal=self.internal,
            declares=frozenset(name for name, is_declared in self.declares.items() if is_declared),
            failure_pattern=self.failure_rule.get("pattern", ""),
            connection=self.connection.name if self.connection is not None else "",
        )

    @property
    def effective_trust(self) -> Trust:
        """`trust`, or the default of the source type."""
        if self.trust:
            return self.Trust(self.trust)
        # Settings name the tools directory as the column of records does: `file`.
        names = {self.kind, "file"} if self.kind == self.Kind.FOLDER else {self.kind}
        is_held = self.is_outside or not names.isdisjoint(conf.value("TOOLHUB_SOURCES_TO_APPROVE"))
        return self.Trust.HOLD_ALL if is_held else self.Trust.AUTO


@dataclass(frozen=True, slots=True)
class LoadProblem:
    """Something that could not be loaded: its location, the reason, and the tool if known."""

    place: str
    reason: str
    tool: str = ""

    def keeps_out(self, name: str, place: str) -> bool:
        """True if this problem explains why the tool `name`, last seen at `place`, is missing."""
        if not place:  # It is no file.
            return self.tool == name
        broken = self.place.rpartition(":")[0] if self.place[-1:].isdigit() else self.place
        file = place.rpartition(":")[0]
        # The place of a module that does not exist is its name.
        module = broken.removesuffix("/__init__.py").replace(".", "/")
        folders = f"{broken.removesuffix('/__init__.py')}/", f"{module}/"
        return self.tool == name or file in (broken, f"{module}.py") or file.startswith(folders)

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class SourceStatus(models.Model):
    """What was observed of a source. Only `availability` and `instructions_hash` count as changes that callers see."""

    class Availability(models.TextChoices):
        OK = "ok"
        STARTING = "starting"
        DOWN = "down"
        SIGN_IN = "sign_in", "sign-in required"

    source = models.OneToOneField(Source, on_delete=models.CASCADE, primary_key=True, related_name="status")
    etag = models.CharField(max_length=128, blank=True, default="", db_default="")
    described_at = models.DateTimeField(null=True, blank=True)
    era = models.CharField("protocol version", max_length=16, blank=True, default="", db_default="")
    error = models.CharField(max_length=1000, blank=True, default="", db_default="")
    since = models.DateTimeField(null=True, blank=True, help_text="Time of the first failure in a row.")
    problems = models.JSONField(
        default=list,
        blank=True,
        db_default=models.Value([], models.JSONField()),
        help_text="What could not be loaded: place, reason and tool.",
    )
    failures = models.PositiveIntegerField(default=0, db_default=0, help_text="Number of failures in a row.")
    next_try_at = models.DateTimeField(null=True, blank=True)
    server = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="Name and version of the server."
    )
    instructions = models.TextField(
        blank=True, default="", db_default="", help_text="What the server says to agents about all of its tools."
    )
    instructions_hash = models.CharField(max_length=64, blank=True, default="", db_default="")
    unstable = models.JSONField(
        default=list,
        blank=True,
        db_default=models.Value([], models.JSONField()),
        help_text="Tools that two listings in a row described differently.",
    )
    unnoted = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="Changes of a sync that has not ended: its audit entry is written at its end.",
    )
    lease_holder = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="The process that describes the source."
    )
    lease_until = models.DateTimeField(null=True, blank=True)
    availability = models.CharField(
        max_length=16, choices=Availability.choices, default=Availability.OK, db_default=Availability.OK
    )

    class Meta:
        verbose_name = "source status"
        verbose_name_plural = "source statuses"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(availability__in=["ok", "starting", "down", "sign_in"]),
                name="source_availability_is_known",
            )
        ]

    def __str__(self) -> str:
        return f"{self.source_id}: {self.availability}"

    @property
    def load_problems(self) -> list[LoadProblem]:
        return [LoadProblem(*problem) for problem in self.problems]


class Admission(models.Model):
    """What one run of a source outside in isolation has shown: the report of an admission test."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="admissions")
    epoch = models.PositiveIntegerField(help_text="Of the source: which origin was tested.")
    server = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="Name and version of the server."
    )
    report = models.JSONField(help_text="Checks, figures and changes since the report before.")
    tested_at = models.DateTimeField(db_default=Now(), editable=False)
    tested_by = models.CharField(max_length=150, blank=True, default="", db_default="")

    class Meta:
        verbose_name = "admission report"
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"{self.source_id}: {self.server or 'no server'}"
