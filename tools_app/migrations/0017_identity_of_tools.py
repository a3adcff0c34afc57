from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tools_app", "0016_sources"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="definition",
            name="definition_once_per_tool",
        ),
        migrations.AlterField(
            model_name="toolrecord",
            name="folded_name",
            field=models.CharField(editable=False, max_length=64),
        ),
        migrations.AlterField(
            model_name="toolrecord",
            name="name",
            field=models.CharField(db_index=True, max_length=64),
        ),
        migrations.AddConstraint(
            model_name="definition",
            constraint=models.UniqueConstraint(fields=("tool", "epoch", "hash"), name="definition_once_per_epoch"),
        ),
        migrations.AddConstraint(
            model_name="toolrecord",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["tool", "prompt", "resource", "template"])), name="tool_kind_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="toolrecord",
            constraint=models.UniqueConstraint(
                fields=("kind", "folded_name"),
                name="tool_name_once_per_kind",
            ),
        ),
        migrations.AddConstraint(
            model_name="toolrecord",
            constraint=models.UniqueConstraint(fields=("source", "kind", "original_name"), name="tool_once_per_source"),
        ),
    ]
