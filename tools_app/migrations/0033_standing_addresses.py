"""Standing approvals are bound to the address of their connection."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools_app", "0032_people")]

    operations = [
        migrations.AddField(
            model_name="standingapproval",
            name="address",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="URL of the connection when it was granted. Empty: not recorded, or no connection.",
                max_length=500,
            ),
        ),
    ]
