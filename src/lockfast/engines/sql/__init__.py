"""What the engines for PostgreSQL and MySQL share: words of replies, pages, and waiting."""
