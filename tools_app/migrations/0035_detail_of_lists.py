from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tools_app", "0034_alerts"),
    ]

    operations = [
        migrations.AddField(
            model_name="toolset",
            name="detail",
            field=models.CharField(
                blank=True,
                choices=[("full", "full"), ("lean", "lean"), ("minimal", "minimal")],
                db_default="",
                default="",
                help_text="How much of each tool agents read: its whole definition (full), what they need of it (lean), or that without the form of its answers and without labels (minimal). Empty: hub default.",
                max_length=8,
            ),
        ),
    ]
