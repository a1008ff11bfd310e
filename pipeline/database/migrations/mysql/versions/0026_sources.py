"""Add sources as entities, with an id on every generation, and the pages that each document was read from."""

from alembic import op

revision = "0026"
down_revision = "0025"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_NAMES = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

# Version-5 UUIDs as `pipeline.document_sources.derived_source_id` makes them: the first 16 bytes of a SHA-1.
_NAMED = "IF(source_uri IS NULL, CONCAT('document', CHAR(31), document_id), CONCAT('uri', CHAR(31), source_uri))"
_HASH = (
    "SHA1(CONCAT(UNHEX('2f1c7a550d0e4c538f0b6f6f1d3b9a26'),"
    f" CAST(CONCAT(tenant_id, CHAR(31), namespace, CHAR(31), {_NAMED}) AS BINARY)))"
)
_SOURCE_ID = (
    "CONCAT(SUBSTR(source_id, 1, 8), '-', SUBSTR(source_id, 9, 4), '-5', SUBSTR(source_id, 14, 3), '-',"
    " SUBSTR('89ab', 1 + CONV(SUBSTR(source_id, 17, 1), 16, 10) % 4, 1), SUBSTR(source_id, 18, 3), '-',"
    " SUBSTR(source_id, 21, 12))"
)
# Earlier generations do not say how they arrived.
_KIND = "IF(g.source_uri IS NULL, 'text', IF(g.source_uri REGEXP '^https?://', 'url', 'file'))"
_MEDIA_TYPE = "SUBSTRING_INDEX(g.media_type, ';', 1)"


def upgrade() -> None:
    """Give every generation the source that its next upload would have, and the pages of its chunks."""
    op.execute(
        f"ALTER TABLE generations ADD COLUMN source_id VARCHAR(64) {_NAMES} NOT NULL DEFAULT '',"
        " ADD COLUMN page_start INT UNSIGNED NULL, ADD COLUMN page_end INT UNSIGNED NULL"
    )
    op.execute(
        f"CREATE TABLE sources (tenant_id VARCHAR(64) {_ASCII} NOT NULL, namespace VARCHAR(64) {_NAMES} NOT NULL,"
        f" source_id VARCHAR(64) {_NAMES} NOT NULL, kind VARCHAR(16) {_ASCII} NOT NULL, uri VARCHAR(2048) NULL,"
        f" media_type VARCHAR(127) {_ASCII} NOT NULL, created_at DATETIME(6) NOT NULL,"
        " PRIMARY KEY (tenant_id, namespace, source_id))"
        " ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )
    op.execute(f"UPDATE generations SET source_id = {_HASH} WHERE source_id = ''")
    op.execute(f"UPDATE generations SET source_id = {_SOURCE_ID} WHERE CHAR_LENGTH(source_id) = 40")
    op.execute(
        "INSERT IGNORE INTO sources (tenant_id, namespace, source_id, kind, uri, media_type, created_at)"
        f" SELECT g.tenant_id, g.namespace, g.source_id, {_KIND}, g.source_uri, {_MEDIA_TYPE}, g.created_at"
        " FROM generations g ORDER BY g.created_at DESC"
    )
    op.execute(
        "UPDATE generations g JOIN (SELECT tenant_id, namespace, document_id, generation, MIN(page) AS first_page,"
        " MAX(COALESCE(page_end, page)) AS last_page FROM chunks WHERE page IS NOT NULL"
        " GROUP BY tenant_id, namespace, document_id, generation) c ON c.tenant_id = g.tenant_id"
        " AND c.namespace = g.namespace AND c.document_id = g.document_id AND c.generation = g.generation"
        " SET g.page_start = c.first_page, g.page_end = c.last_page"
    )
    op.execute("ALTER TABLE generations ADD KEY generations_by_source (tenant_id, namespace, source_id)")


def downgrade() -> None:
    """Forget the sources; ids that senders chose are lost."""
    op.execute("DROP TABLE sources")
    op.execute(
        "ALTER TABLE generations DROP KEY generations_by_source, DROP COLUMN source_id, DROP COLUMN page_start,"
        " DROP COLUMN page_end"
    )
