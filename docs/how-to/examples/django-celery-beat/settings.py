SECRET_KEY = "for the example"
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
