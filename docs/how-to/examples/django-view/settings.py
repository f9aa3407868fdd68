import os

SECRET_KEY = "for the example"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
TIME_ZONE = "UTC"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["shop"]
MIDDLEWARE = ["shop.locks.LockErrors"]
ROOT_URLCONF = "urls"
LOCKFAST_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "localhost",
        "NAME": "app",
    },
}
