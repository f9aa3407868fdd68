SECRET_KEY = "for the example"  # noqa: S105  # it keeps no secret
TIME_ZONE = "UTC"
USE_TZ = True
INSTALLED_APPS = ["django_celery_beat"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "localhost",
        "NAME": "app",
    },
}
