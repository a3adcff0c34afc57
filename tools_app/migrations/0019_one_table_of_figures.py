"""One table of figures, to which calls are added after their commit.

Processes of the previous release keep adding to hours, and to the table of `CallSum`: it stays for them, and the next
release drops it. What they add to hours is added to the sums of the day by a running hub, every hour.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import migrations, models
from django.db.models import F

BOUNDS = (10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
LENGTHS = (*(f"within_{bound}" for bound in BOUNDS), "slower")
SUMS = ("calls", "from_cache", "total_ms", "result_bytes", *LENGTHS)
# As many days as pages show.
DAYS = 32
ADD_UP = f"""
    INSERT INTO tools_app_callhour (span, hour, tool_name, caller_id, caller_name, status, code, {", ".join(SUMS)})
    SELECT '{{span}}', {{hour}}, {{tool}}, '*', '', status, '', {", ".join(f"SUM({name})" for name in SUMS)}
    FROM tools_app_callhour WHERE span = 'hour' AND hour >= %s AND hour < %s GROUP BY {{group}}, status
"""  # noqa: S608 – our own names


def add_up(apps: Any, schema_editor: Any) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    adapt = schema_editor.connection.ops.adapt_datetimefield_value
    with schema_editor.connection.cursor() as cursor:
        for number in range(-1, DAYS):
            day = today - timedelta(days=number)
            bounds = [adapt(day), adapt(day + timedelta(days=1))]
            cursor.execute(ADD_UP.format(span="total", hour="hour", tool="'*'", group="hour"), bounds)
            cursor.execute(
                ADD_UP.format(span="day", hour="%s", tool="tool_name", group="tool_name"), [bounds[0], *bounds]
            )


def add_pending(apps: Any, schema_editor: Any) -> None:
    """Leave only what the previous release knows: hours of a tool and a caller, with all calls."""
    CallHour, PendingCount = (apps.get_model("tools_app", name) for name in ("CallHour", "PendingCount"))
    CallHour.objects.exclude(span="hour").delete()
    for count in PendingCount.objects.order_by("pk"):
        hour, _ = CallHour.objects.get_or_create(
            **{name: getattr(count, name) for name in ("hour", "tool_name", "caller_id", "status", "code")},
            defaults={"caller_name": count.caller_name},
        )
        length = next((f"within_{bound}" for bound in BOUNDS if count.duration_ms <= bound), "slower")
        sums = {"calls": 1, "from_cache": count.from_cache, length: 1}
        sums |= {"total_ms": count.duration_ms, "result_bytes": count.result_bytes}
        added = {name: F(name) + value * count.count for name, value in sums.items()}
        CallHour.objects.filter(pk=hour.pk).update(**added)


class Migration(migrations.Migration):
    dependencies = [
        ("tools_app", "0018_sources_of_tools"),
    ]

    operations = [
        migrations.CreateModel(
            name="PendingCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField()),
                ("tool_name", models.CharField(max_length=100, verbose_name="tool")),
                ("caller_id", models.CharField(max_length=64)),
                ("caller_name", models.CharField(max_length=150, verbose_name="caller")),
                ("status", models.CharField(max_length=12)),
                ("code", models.CharField(blank=True, max_length=40)),
                (
                    "count",
                    models.BigIntegerField(
                        help_text="More than 1: identical refusals. -1: another outcome has replaced this one."
                    ),
                ),
                ("from_cache", models.BooleanField()),
                ("duration_ms", models.PositiveIntegerField()),
                ("result_bytes", models.PositiveIntegerField()),
            ],
        ),
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name="CallSum")]),
        migrations.AddField(
            model_name="callhour",
            name="span",
            field=models.CharField(
                choices=[
                    ("hour", "hour of a tool and a caller"),
                    ("total", "hour of all tools"),
                    ("day", "day of a tool"),
                ],
                db_default="hour",
                default="hour",
                max_length=8,
            ),
        ),
        migrations.AddIndex(
            model_name="callhour",
            index=models.Index(
                condition=models.Q(("span", "hour"), _negated=True), fields=["span", "hour"], name="sums_of_calls"
            ),
        ),
        migrations.RunPython(add_up, add_pending),
    ]
