import os

SECRET_KEY = "for the example"
INSTALLED_APPS = ["lockfast.integrations.django", "shop"]
LOCKFAST_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "localhost",
        "NAME": "app",
    },
}
