"""Deletions of documents beside other writes to the same rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import text

from pipeline.administration.delete_documents import delete_document
from pipeline.records import DocumentId
from tests.support.clients.operating import eventually
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner

_LOCK_NAMESPACE = text("SELECT 1 FROM namespaces WHERE tenant_id = :tenant FOR UPDATE")
_LOCK_DOCUMENT = "SELECT 1 FROM documents WHERE tenant_id = :tenant AND document_id = 'a' FOR UPDATE"
# More changed rows than the deletion has: the server rolls back the smaller of two transactions.
_CHANGE = text("UPDATE chunks SET ordinal = ordinal + 1000 WHERE tenant_id = :tenant AND document_id = 'others'")


class DescribeADeletedDocument:
    def it_is_deleted_though_the_server_rolled_back_a_deadlock(self, corner: Corner):
        paragraphs = "\n\n".join(f"{number}. " + "段落 paragraph " * 60 for number in range(60))
        corner.ingest(upload("a", "bolt 螺栓"), upload("others", paragraphs))
        values = {"tenant": corner.tenant}
        with ThreadPoolExecutor(1) as pool, corner.use.mysql.connect() as other:
            other.execute(_CHANGE, values)
            other.execute(_LOCK_NAMESPACE, values)
            deleting = pool.submit(delete_document, corner.tenant, corner.namespace, DocumentId("a"), corner.use)
            eventually(lambda: not corner.execute(f"{_LOCK_DOCUMENT} SKIP LOCKED"), within_s=10)
            other.execute(text(_LOCK_DOCUMENT), values)
            other.rollback()
            assert deleting.result(timeout=10)
        assert list(corner.shown()) == ["others"]
        corner.assert_clean()
