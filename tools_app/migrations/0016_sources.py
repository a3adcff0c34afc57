from typing import Any

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class AddColumn(migrations.AddField):
    """Adds a column with a constant default to a large table. Django copies the table on SQLite, each time."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "sqlite":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        BaseDatabaseSchemaEditor.add_field(schema_editor, model, model._meta.get_field(self.name))


class Migration(migrations.Migration):
    dependencies = [
        ("tools_app", "0015_limits_of_callers"),
    ]

    operations = [
        # Only the name in Python changes: processes of the previous release use the column.
        migrations.AlterField(
            model_name="toolrecord",
            name="source",
            field=models.CharField(
                db_column="source",
                help_text="Type of the source that provides the tool.",
                max_length=16,
                verbose_name="source type",
            ),
        ),
        migrations.RenameField(
            model_name="toolrecord",
            old_name="source",
            new_name="source_kind",
        ),
        migrations.CreateModel(
            name="Source",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "timeout_ms",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Calls are cancelled after this time. Callers can set a shorter limit, not a longer one. 100 to 120,000. Leave empty to inherit.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(100),
                            django.core.validators.MaxValueValidator(120000),
                        ],
                        verbose_name="time limit (ms)",
                    ),
                ),
                (
                    "retries",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Retries on transient errors (read-only or idempotent tools only). Callers can ask for fewer, not more. 0 to 3. Leave empty to inherit.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(3),
                        ],
                        verbose_name="retries",
                    ),
                ),
                (
                    "retry_delay_ms",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Delay before the first retry; doubles each time. Callers can ask for a longer delay, not a shorter one. 100 to 10,000. Leave empty to inherit.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(100),
                            django.core.validators.MaxValueValidator(10000),
                        ],
                        verbose_name="retry delay (ms)",
                    ),
                ),
                (
                    "rate_calls",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Max. calls per caller and period. 1 to 1,000,000. Leave empty to inherit.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                        verbose_name="rate limit: max. calls",
                    ),
                ),
                (
                    "rate_seconds",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Length of the period. 1 to 86,400. Leave empty to inherit.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(86400),
                        ],
                        verbose_name="rate limit: per (s)",
                    ),
                ),
                (
                    "cache_seconds",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Cache responses to identical calls for this long. Read-only tools only. 0 to 86,400. Leave empty to inherit.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(86400),
                        ],
                        verbose_name="cache (s)",
                    ),
                ),
                (
                    "answer_tokens",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Responses above this size are stored and summarised. Cannot exceed the hub limit. 1,000 to 1,000,000. Leave empty to inherit.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1000),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                        verbose_name="max. response size (tokens)",
                    ),
                ),
                ("name", models.CharField(max_length=200, unique=True)),
                (
                    "prefix",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        max_length=16,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[a-z][a-z0-9]{1,15}\\Z",
                                "2 to 16 lowercase letters and numbers, the first a letter, without a separator.",
                            )
                        ],
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("shipped", "shipped pack"),
                            ("plugin", "installed package"),
                            ("app", "Django app"),
                            ("folder", "tools directory"),
                            ("code", "code"),
                            ("mcp_http", "MCP server (HTTP)"),
                            ("mcp_stdio", "MCP server (command)"),
                            ("openapi", "OpenAPI document"),
                        ],
                        max_length=16,
                        verbose_name="source type",
                    ),
                ),
                (
                    "location",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Module, directory or URL. Contains no secrets.",
                        max_length=2000,
                    ),
                ),
                (
                    "command",
                    models.JSONField(
                        blank=True,
                        db_default=models.Value([], models.JSONField()),
                        default=list,
                        help_text="Program and arguments of a child process. Contains no secrets.",
                    ),
                ),
                (
                    "epoch",
                    models.PositiveIntegerField(
                        db_default=1,
                        default=1,
                        help_text="Increases when the origin changes: earlier approvals do not apply to it. 0: made by an upgrade, origin not known.",
                    ),
                ),
                (
                    "trust",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "default of the source type"),
                            ("auto", "approve automatically"),
                            ("hold_changes", "hold changes"),
                            ("hold_all", "hold everything"),
                        ],
                        db_default="",
                        default="",
                        max_length=16,
                    ),
                ),
                (
                    "enabled",
                    models.BooleanField(db_default=True, default=True, help_text="Off: all calls are refused."),
                ),
                (
                    "start",
                    models.CharField(
                        choices=[("on_demand", "on demand"), ("always", "always")],
                        db_default="on_demand",
                        default="on_demand",
                        max_length=16,
                    ),
                ),
                (
                    "per_session",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="Every client session has an upstream session of its own.",
                    ),
                ),
                (
                    "declares",
                    models.JSONField(
                        blank=True,
                        db_default=models.Value({}, models.JSONField()),
                        default=dict,
                        help_text="Client capabilities that are declared to the upstream.",
                    ),
                ),
                (
                    "failure_rule",
                    models.JSONField(
                        blank=True,
                        db_default=models.Value({}, models.JSONField()),
                        default=dict,
                        help_text="Which responses count as failures although the upstream does not mark them.",
                    ),
                ),
                ("created_by", models.CharField(blank=True, db_default="", default="", max_length=150)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("removed_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "connection",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="sources",
                        to="tools_app.connection",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("name", ""), _negated=True), name="source_has_a_name"),
                    models.UniqueConstraint(
                        condition=models.Q(("prefix", ""), _negated=True), fields=("prefix",), name="source_prefix_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind__in", ["mcp_http", "mcp_stdio", "openapi"]), _negated=True),
                            models.Q(models.Q(("prefix", ""), _negated=True), ("name", models.F("prefix"))),
                            _connector="OR",
                        ),
                        name="source_outside_is_named_by_its_prefix",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(models.Q(("kind", "mcp_stdio")), models.Q(("command", []), _negated=True)),
                            models.Q(models.Q(("kind", "mcp_stdio"), _negated=True), models.Q(("command", []))),
                            _connector="OR",
                        ),
                        name="source_command_is_for_stdio",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "kind__in",
                                ["shipped", "plugin", "app", "folder", "code", "mcp_http", "mcp_stdio", "openapi"],
                            )
                        ),
                        name="source_kind_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("trust__in", ["", "auto", "hold_changes", "hold_all"])),
                        name="source_trust_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("start__in", ["on_demand", "always"])), name="source_start_is_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("timeout_ms", None),
                            models.Q(("timeout_ms__gte", 100), ("timeout_ms__lte", 120000)),
                            _connector="OR",
                        ),
                        name="source_timeout_ms_within_bounds",
                        violation_error_message="Between 100 and 120,000.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("retries", None), models.Q(("retries__gte", 0), ("retries__lte", 3)), _connector="OR"
                        ),
                        name="source_retries_within_bounds",
                        violation_error_message="Between 0 and 3.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("retry_delay_ms", None),
                            models.Q(("retry_delay_ms__gte", 100), ("retry_delay_ms__lte", 10000)),
                            _connector="OR",
                        ),
                        name="source_retry_delay_ms_within_bounds",
                        violation_error_message="Between 100 and 10,000.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("rate_calls", None),
                            models.Q(("rate_calls__gte", 1), ("rate_calls__lte", 1000000)),
                            _connector="OR",
                        ),
                        name="source_rate_calls_within_bounds",
                        violation_error_message="Between 1 and 1,000,000.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("rate_seconds", None),
                            models.Q(("rate_seconds__gte", 1), ("rate_seconds__lte", 86400)),
                            _connector="OR",
                        ),
                        name="source_rate_seconds_within_bounds",
                        violation_error_message="Between 1 and 86,400.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("cache_seconds", None),
                            models.Q(("cache_seconds__gte", 0), ("cache_seconds__lte", 86400)),
                            _connector="OR",
                        ),
                        name="source_cache_seconds_within_bounds",
                        violation_error_message="Between 0 and 86,400.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("answer_tokens", None),
                            models.Q(("answer_tokens__gte", 1000), ("answer_tokens__lte", 1000000)),
                            _connector="OR",
                        ),
                        name="source_answer_tokens_within_bounds",
                        violation_error_message="Between 1,000 and 1,000,000.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("rate_calls", None), ("rate_seconds", None)),
                            models.Q(("rate_calls__isnull", False), ("rate_seconds__isnull", False)),
                            _connector="OR",
                        ),
                        name="source_rate_is_whole",
                        violation_error_message="Set both the number of calls and the period.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SourceStatus",
            fields=[
                (
                    "source",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="status",
                        serialize=False,
                        to="tools_app.source",
                    ),
                ),
                ("etag", models.CharField(blank=True, db_default="", default="", max_length=128)),
                ("described_at", models.DateTimeField(blank=True, null=True)),
                (
                    "era",
                    models.CharField(
                        blank=True, db_default="", default="", max_length=16, verbose_name="protocol version"
                    ),
                ),
                ("error", models.CharField(blank=True, db_default="", default="", max_length=1000)),
                ("since", models.DateTimeField(blank=True, help_text="Time of the first failure in a row.", null=True)),
                (
                    "problems",
                    models.JSONField(
                        blank=True,
                        db_default=models.Value([], models.JSONField()),
                        default=list,
                        help_text="What could not be loaded: place, reason and tool.",
                    ),
                ),
                (
                    "failures",
                    models.PositiveIntegerField(db_default=0, default=0, help_text="Number of failures in a row."),
                ),
                ("next_try_at", models.DateTimeField(blank=True, null=True)),
                ("instructions_hash", models.CharField(blank=True, db_default="", default="", max_length=64)),
                (
                    "lease_holder",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="The process that describes the source.",
                        max_length=64,
                    ),
                ),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                (
                    "availability",
                    models.CharField(
                        choices=[
                            ("ok", "Ok"),
                            ("starting", "Starting"),
                            ("down", "Down"),
                            ("sign_in", "sign-in required"),
                        ],
                        db_default="ok",
                        default="ok",
                        max_length=16,
                    ),
                ),
            ],
            options={
                "verbose_name": "source status",
                "verbose_name_plural": "source statuses",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("availability__in", ["ok", "starting", "down", "sign_in"])),
                        name="source_availability_is_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Child",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("connection", models.CharField(blank=True, db_default="", default="", max_length=64)),
                ("epoch", models.PositiveIntegerField()),
                ("host", models.CharField(max_length=255)),
                ("pid", models.PositiveIntegerField()),
                ("pgid", models.PositiveIntegerField()),
                ("process_start", models.CharField(max_length=64)),
                ("last_used_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="children", to="tools_app.source"
                    ),
                ),
            ],
            options={
                "verbose_name": "child process",
                "verbose_name_plural": "child processes",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("source", "connection", "epoch", "host"), name="child_once_per_source_and_host"
                    )
                ],
            },
        ),
        AddColumn(
            model_name="call",
            name="original_name",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="The name that the source uses.", max_length=500
            ),
        ),
        AddColumn(
            model_name="call",
            name="sent",
            field=models.CharField(
                blank=True,
                choices=[("", "not recorded"), ("no", "No"), ("maybe", "Maybe"), ("yes", "Yes")],
                db_default="",
                default="",
                help_text="Whether the upstream received the request.",
                max_length=5,
            ),
        ),
        AddColumn(
            model_name="call",
            name="source",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="The source that provided the tool.", max_length=200
            ),
        ),
        AddColumn(
            model_name="call",
            name="source_epoch",
            field=models.PositiveIntegerField(db_default=0, default=0, help_text="0: not recorded."),
        ),
        AddColumn(
            model_name="call",
            name="upstream_session",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="definition",
            name="body_text",
            field=models.TextField(
                blank=True, db_default="", default="", help_text="The definition as JSON text, with its keys in order."
            ),
        ),
        migrations.AddField(
            model_name="definition",
            name="epoch",
            field=models.PositiveIntegerField(
                db_default=1, default=1, help_text="Epoch of the source that offered this version."
            ),
        ),
        migrations.AddField(
            model_name="definition",
            name="normaliser",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                help_text="Version of the rules that made it from `raw`.",
                verbose_name="normaliser version",
            ),
        ),
        migrations.AddField(
            model_name="definition",
            name="pin_hash",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="Hash of what an approval covers.", max_length=64
            ),
        ),
        migrations.AddField(
            model_name="definition",
            name="raw",
            field=models.TextField(
                blank=True, db_default="", default="", help_text="The definition as the source sent it."
            ),
        ),
        migrations.AddField(
            model_name="revision",
            name="access",
            field=models.BigIntegerField(db_default=0, default=0, help_text="Changes of keys, toolsets and stops."),
        ),
        migrations.AddField(
            model_name="revision",
            name="tools",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="Changes of tools, sources and connections."
            ),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="absent_since",
            field=models.DateTimeField(
                blank=True, editable=False, help_text="Since when the source does not list this tool.", null=True
            ),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="hint_destructive",
            field=models.BooleanField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="hint_idempotent",
            field=models.BooleanField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="hint_open_world",
            field=models.BooleanField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="hint_read_only",
            field=models.BooleanField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="kind",
            field=models.CharField(
                choices=[("tool", "Tool"), ("prompt", "Prompt"), ("resource", "Resource"), ("template", "Template")],
                db_default="tool",
                default="tool",
                editable=False,
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="offered",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                help_text="The version that waits for approval while agents see the current one.",
                null=True,
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="offered_for",
                to="tools_app.definition",
            ),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="original_name",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="The name that the source uses.",
                max_length=2000,
            ),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="runtime",
            field=models.JSONField(
                blank=True,
                db_default=models.Value({}, models.JSONField()),
                default=dict,
                editable=False,
                help_text="What a call needs that is not part of the definition.",
            ),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="offered_runtime",
            field=models.JSONField(
                blank=True,
                editable=False,
                help_text="The same for the version that waits for approval.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="revision",
            name="value",
            field=models.BigIntegerField(help_text="All changes."),
        ),
        migrations.AddIndex(
            model_name="call",
            index=models.Index(
                condition=models.Q(("source", ""), _negated=True),
                fields=["source", "-started_at"],
                name="call_of_source",
            ),
        ),
        migrations.AddField(
            model_name="toolrecord",
            name="source",
            field=models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="tools",
                to="tools_app.source",
            ),
        ),
    ]
