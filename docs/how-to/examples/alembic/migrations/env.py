import os

from alembic import context
from sqlalchemy import engine_from_config, pool

import lockfast
from lockfast.integrations.alembic import locked

client = lockfast.connect(os.environ.get("REDIS_URL", "redis://localhost:6379"))


def run_migrations_online() -> None:
    engine = engine_from_config(
        context.config.get_section(context.config.config_ini_section, {}),
        prefix="sqlalchemy.",
        poolclass=pool.NullPool,
    )
    lock = client.lock("migrate:app", ttl=30, timeout=600)
    with locked(lock, engine, target_metadata=None):
        context.run_migrations()


run_migrations_online()
