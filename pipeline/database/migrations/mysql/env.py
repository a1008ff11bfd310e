"""Alembic's entry for the MySQL side; `pipeline.maintenance.migrate_schema` hands the connection in."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], version_table="schema_version_mysql")
with context.begin_transaction():
    context.run_migrations()
