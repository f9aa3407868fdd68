from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            "Bill",
            [
                ("tenant", models.TextField(primary_key=True, serialize=False)),
                ("token", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL("SELECT pg_sleep(1)", migrations.RunSQL.noop),  # some take their time
    ]
