"""Count reconnections, by which every process of the hub knows that its connections are to be ended.

Also drop a table that was never used: processes are the supervisor's, which knows them without a database.

No release had it, so no process that runs during an upgrade reads it, and no row is lost.
"""

from typing import Any

from django.db import migrations, models


def forget_permissions(apps: Any, schema_editor: Any) -> None:
    """Django leaves those of a model that is gone, and offers them in the admin. Going back creates them again."""
    apps.get_model("contenttypes", "ContentType").objects.using(schema_editor.connection.alias).filter(
        app_label="tools_app", model="child"
    ).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("contenttypes", "0002_remove_content_type_name"),
        ("tools_app", "0020_sources_outside"),
    ]

    operations = [
        migrations.AddField(
            model_name="source",
            name="reconnects",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                editable=False,
                help_text="Increases when an operator reconnects: connections and processes from before it are ended.",
            ),
        ),
        migrations.DeleteModel(name="Child"),
        migrations.RunPython(forget_permissions, migrations.RunPython.noop),
    ]
