import sqlalchemy as sa
from alembic import op

revision = "first"
down_revision = None


def upgrade() -> None:
    op.create_table("bill", sa.Column("tenant", sa.Text, primary_key=True))
    op.execute("SELECT pg_sleep(1)")  # a slow migration


def downgrade() -> None:
    op.drop_table("bill")
