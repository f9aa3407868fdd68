from django.db import migrations, models

from lockfast.guards.django import Fenced
from lockfast.guards.postgres import schema


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.RunSQL(schema(), migrations.RunSQL.noop),
        migrations.CreateModel(
            "Invoice",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("payments", models.IntegerField(default=0)),
            ],
            bases=(Fenced, models.Model),
        ),
        migrations.RunSQL(
            "SELECT lockfast_guard.protect_v1('shop_invoice', 'invoice:{id}')",
            "SELECT lockfast_guard.unprotect_v1('shop_invoice')",
        ),
    ]
