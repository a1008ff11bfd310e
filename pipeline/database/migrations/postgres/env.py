"""Alembic's entry for the PostgreSQL side; `pipeline.maintenance.migrate_schema` hands the connection in."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table="schema_version_postgres",
    transaction_per_migration=True,
)
if context.is_offline_mode():  # `plan` prints the statements; a revision may still read
    context.get_context().impl.connection = context.config.attributes["connection"]
with context.begin_transaction():
    context.run_migrations()
