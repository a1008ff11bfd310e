"""Which files of tests run beside which: each process of pytest reads files of its own, so no file is read twice.

A file stays with one process anyway, because what is set up for it (databases, gateways) costs more than most tests; and
reading every file in every process took longer than a third of the tests in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

TESTS = Path(__file__).parent
APART_FOLDERS = ("faults",)  # they break and kill processes of their own, and promise a quarter of a second
SPARE_FOLDERS = ("unit", "contract")  # they need no server: what the others leave of the processors is enough

_ROUNDS = (0.5, 0.6)  # of the seconds that are left; a bundle costs about a second of processor time

# About how many seconds a file takes, by its kind and name.
_USUAL = {"acceptance": 4.2, "contract": 3.2, "faults": 9.0, "integration": 3.4, "unit": 1.1}
_LONG = {
    "acceptance/test_agent_guides.py": 7,
    "acceptance/test_attacks.py": 15,
    "acceptance/test_audit_api.py": 7,
    "acceptance/test_channels_api.py": 7,
    "acceptance/test_computations_api.py": 14,
    "acceptance/test_control_api.py": 9,
    "acceptance/test_crowd.py": 6,
    "acceptance/test_document_status_api.py": 5,
    "acceptance/test_documents_api.py": 6,
    "acceptance/test_erased_tenant.py": 13,
    "acceptance/test_example_agents.py": 7,
    "acceptance/test_explain_api.py": 5,
    "acceptance/test_generations_api.py": 5,
    "acceptance/test_guides.py": 20,
    "acceptance/test_javascript_package.py": 3,
    "acceptance/test_job_retention_api.py": 13,
    "acceptance/test_keeping_both_api.py": 11,
    "acceptance/test_layered_reports.py": 9,
    "acceptance/test_mcp_api.py": 15,
    "acceptance/test_profiles_api.py": 7,
    "acceptance/test_python_guides.py": 9,
    "acceptance/test_query_lane_api.py": 8,
    "acceptance/test_query_understanding.py": 7,
    "acceptance/test_recall_operation.py": 20,
    "acceptance/test_request_heads.py": 8,
    "acceptance/test_runbooks.py": 16,
    "acceptance/test_schema_properties.py": 25,
    "acceptance/test_sources_api.py": 6,
    "acceptance/test_tenancy_api.py": 12,
    "acceptance/test_tutorials.py": 15,
    "acceptance/test_uploads.py": 8,
    "acceptance/test_written_answers.py": 13,
    "acceptance/test_wrong_keys.py": 7,
    "browser/test_console_accessibility.py": 4,
    "browser/test_console_administration.py": 28,
    "browser/test_console_documents.py": 47,
    "browser/test_console_every_page.py": 45,
    "browser/test_console_find.py": 17,
    "browser/test_console_first.py": 20,
    "browser/test_console_health.py": 8,
    "browser/test_console_knowledge.py": 16,
    "browser/test_console_looks.py": 19,
    "browser/test_console_migration.py": 15,
    "browser/test_console_outages.py": 40,
    "browser/test_console_overview.py": 5,
    "browser/test_console_playground.py": 48,
    "browser/test_console_sentences.py": 6,
    "browser/test_console_states.py": 16,
    "browser/test_console_traces.py": 17,
    "browser/test_console_transfer.py": 26,
    "browser/test_console_tuning.py": 22,
    "browser/test_console_work.py": 32,
    "browser/test_console_written.py": 10,
    "browser/test_reference.py": 8,
    "contract/test_embedder_failures.py": 8,
    "contract/test_embedders.py": 13,
    "contract/test_fetcher.py": 13,
    "contract/test_http_rerankers.py": 19,
    "contract/test_word_indexes.py": 15,
    "faults/test_brokers.py": 23,
    "faults/test_fault_matrix.py": 20,
    "faults/test_fault_matrix_served.py": 9,
    "faults/test_forgetful_redis.py": 7,
    "faults/test_gateway_restarts.py": 32,
    "faults/test_headers.py": 16,
    "faults/test_killed_worker.py": 10,
    "faults/test_outages.py": 25,
    "faults/test_query_lane.py": 25,
    "integration/test_alignment.py": 14,
    "integration/test_backup.py": 35,
    "integration/test_chunk_structure.py": 7,
    "integration/test_clock.py": 18,
    "integration/test_conditions.py": 15,
    "integration/test_doctor.py": 7,
    "integration/test_erasure.py": 8,
    "integration/test_every_moment.py": 30,
    "integration/test_fairness.py": 31,
    "integration/test_fetching.py": 8,
    "integration/test_flower.py": 12,
    "integration/test_generations.py": 9,
    "integration/test_guarded_servers.py": 13,
    "integration/test_ingest_flow.py": 6,
    "integration/test_installation.py": 25,
    "integration/test_kept_answers.py": 8,
    "integration/test_keyword_index.py": 9,
    "integration/test_migrations.py": 10,
    "integration/test_model_migration.py": 30,
    "integration/test_model_migration_faults.py": 13,
    "integration/test_portability.py": 7,
    "integration/test_portability_imports.py": 4,
    "integration/test_rate_limits.py": 60,
    "integration/test_scans.py": 13,
    "integration/test_selection.py": 5,
    "integration/test_semantic_indexes.py": 24,
    "integration/test_understanding_flow.py": 9,
    "integration/test_unfit_redis.py": 18,
    "integration/test_vector_graphs.py": 25,
    "integration/test_webhooks.py": 7,
    "quality/test_first_places.py": 17,
    "quality/test_floors.py": 40,
    "unit/test_cutting_sandbox.py": 10,
    "unit/test_every_command.py": 6,
    "unit/test_index_faults.py": 9,
    "unit/test_input_growth.py": 12,
    "unit/test_page.py": 6,
    "unit/test_parsing_formats_sandbox.py": 11,
    "unit/test_parsing_markup.py": 8,
    "unit/test_pattern_growth.py": 20,
    "unit/test_pictures.py": 17,
    "unit/test_prose.py": 14,
    "unit/test_sentences.py": 7,
    "unit/test_surface.py": 11,
    "unit/test_trace_store.py": 4,
    "unit/test_traceparent.py": 10,
}


def together() -> list[Path]:
    """The files with tests that need servers and have no mark by their folder."""
    elsewhere = {*spare(), *_files_of(*APART_FOLDERS)}
    return [file for file in _files() if file not in elsewhere]


def spare() -> list[Path]:
    """The files with tests that need no server."""
    return [file for file in _files_of(*SPARE_FOLDERS) if not _names(file, "stack")]


def marked(mark: str, folders: Sequence[str]) -> list[Path]:
    """The files in which tests with this mark may be: all of these folders, and those that name it."""
    return [file for file in _files() if kind(file) in folders or _names(file, mark)]


def bundled(found: Iterable[Path], many: int) -> list[list[Path]]:
    """The files in bundles for so many processes, each of which takes the next bundle when it is done, the longest files
    first. So processes end together although figures are wrong, and most files share a start of pytest with others."""
    left = sorted(found, key=_seconds, reverse=True)
    bundles: list[list[Path]] = []
    for share in _ROUNDS if many > 1 else ():
        seconds, some = share * sum(map(_seconds, left)), list[Path]()
        while sum(map(_seconds, some)) < seconds:
            some.append(left.pop(0))
        bundles += _shared_out(some, many)
    return bundles + _shared_out(left, many)


def _shared_out(found: Iterable[Path], many: int) -> list[list[Path]]:
    """The files in as many lists, which take about as long as each other: the longest first, each to the list that is
    shortest so far (Graham, "Bounds on multiprocessing timing anomalies", 1969). A list has the files of a folder one after
    the other, which may share what is set up for the folder."""
    lanes: list[list[Path]] = [[] for _ in range(many)]
    taken = [0.0] * many
    for file in sorted(found, key=_seconds, reverse=True):
        shortest = taken.index(min(taken))
        lanes[shortest].append(file)
        taken[shortest] += _seconds(file)
    return [sorted(lane) for lane in lanes if lane]


def kind(file: Path) -> str:
    """Return the folder of ``tests`` that a file of tests is in: ``unit``, ``acceptance``; empty for those in none."""
    folders = file.relative_to(TESTS).parts[:-1]
    return folders[0] if folders else ""


def _names(file: Path, mark: str) -> bool:
    return f"mark.{mark}" in file.read_text(encoding="utf-8")


def _files_of(*folders: str) -> list[Path]:
    return [file for file in _files() if kind(file) in folders]


def _files() -> list[Path]:
    return sorted(TESTS.rglob("test_*.py"))


def _seconds(file: Path) -> float:
    return _LONG.get(f"{kind(file)}/{file.name}", _USUAL.get(kind(file), 1.0))
