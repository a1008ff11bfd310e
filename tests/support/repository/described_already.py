"""Has the gateway describe itself when this is imported: tests/warm.py does so before the processes of a run part."""

from tests.support.repository.described_codes import document

document()
