"""Which files of tests run beside which: each process of pytest reads files of its own, so no file is read twice.

A file stays with one process anyway, because what is set up for it (databases, gateways) costs more than most tests; and
reading every file in every process took longer than a third of the tests in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

TESTS = Path(__file__).parent
ALONE_FOLDERS = ("faults",)  # they kill what others use, or promise a quarter of a second
CALM_FOLDERS = ("quality", "browser")  # what many others do would make them late
SPARE_FOLDERS = ("unit", "contract")  # they need no server: what the others leave of the processors is enough

# About how many seconds a file takes, by its kind and name. A wrong figure only lets one process end before the others.
_USUAL = {"acceptance": 4.2, "contract": 3.2, "integration": 3.4, "unit": 1.1}
_LONG = {
    "acceptance/test_agent_guides.py": 11,
    "acceptance/test_attacks.py": 17,
    "acceptance/test_audit_api.py": 11,
    "acceptance/test_bad_input.py": 11,
    "acceptance/test_channels_api.py": 18,
    "acceptance/test_chunking_api.py": 8,
    "acceptance/test_chunks_api.py": 8,
    "acceptance/test_computations_api.py": 25,
    "acceptance/test_control_api.py": 16,
    "acceptance/test_crowd.py": 19,
    "acceptance/test_documents_api.py": 10,
    "acceptance/test_erased_tenant.py": 7,
    "acceptance/test_examples.py": 12,
    "acceptance/test_explain_api.py": 8,
    "acceptance/test_generations_api.py": 12,
    "acceptance/test_getting_started.py": 9,
    "acceptance/test_guides.py": 43,
    "acceptance/test_job_events.py": 14,
    "acceptance/test_main_job.py": 10,
    "acceptance/test_mcp_api.py": 40,
    "acceptance/test_openai_files.py": 9,
    "acceptance/test_python_guides.py": 14,
    "acceptance/test_query_lane_api.py": 12,
    "acceptance/test_query_understanding.py": 13,
    "acceptance/test_recall_operation.py": 22,
    "acceptance/test_recall_sources.py": 8,
    "acceptance/test_runbooks.py": 32,
    "acceptance/test_schema_properties.py": 27,
    "acceptance/test_selection_api.py": 10,
    "acceptance/test_sources_api.py": 14,
    "acceptance/test_tenancy_api.py": 26,
    "acceptance/test_tenancy_docs.py": 8,
    "acceptance/test_why_not_api.py": 8,
    "acceptance/test_wrong_keys.py": 9,
    "browser/test_console_health.py": 25,
    "browser/test_console_looks.py": 50,
    "browser/test_console_states.py": 37,
    "browser/test_console_work.py": 47,
    "contract/test_channels.py": 8,
    "contract/test_embedder_failures.py": 6,
    "contract/test_fetcher.py": 17,
    "faults/test_brokers.py": 40,
    "faults/test_fault_matrix.py": 33,
    "faults/test_fault_matrix_served.py": 15,
    "faults/test_headers.py": 21,
    "faults/test_killed_worker.py": 13,
    "faults/test_lost_channels.py": 19,
    "faults/test_lost_understanding.py": 18,
    "faults/test_outages.py": 24,
    "faults/test_query_lane.py": 30,
    "integration/test_alignment.py": 13,
    "integration/test_chunk_edit.py": 6,
    "integration/test_control.py": 8,
    "integration/test_doctor.py": 10,
    "integration/test_erasure.py": 9,
    "integration/test_every_moment.py": 13,
    "integration/test_fairness.py": 16,
    "integration/test_fetching.py": 14,
    "integration/test_flower.py": 8,
    "integration/test_generations.py": 15,
    "integration/test_guarded_servers.py": 16,
    "integration/test_hostile_files.py": 9,
    "integration/test_installation.py": 25,
    "integration/test_kept_answers.py": 6,
    "integration/test_keyword_index.py": 14,
    "integration/test_migrations.py": 6,
    "integration/test_model_migration.py": 24,
    "integration/test_model_migration_faults.py": 41,
    "integration/test_portability.py": 10,
    "integration/test_rate_limits.py": 53,
    "integration/test_reuploads.py": 10,
    "integration/test_semantic_indexes.py": 14,
    "integration/test_semantic_search.py": 9,
    "integration/test_store_refusals.py": 14,
    "integration/test_understanding_flow.py": 12,
    "integration/test_webhooks.py": 16,
    "quality/test_floors.py": 68,
    "test_guards.py": 6,
    "unit/client/cli/test_tune_command.py": 9,
    "unit/client/evaluation/test_tune.py": 6,
    "unit/client/test_deadlines.py": 6,
    "unit/test_cutting_sandbox.py": 12,
    "unit/test_demo.py": 8,
    "unit/gateway/test_app.py": 6,
    "unit/test_input_growth.py": 15,
    "unit/test_parser_plugins.py": 10,
    "unit/test_parsing_formats_sandbox.py": 20,
    "unit/test_parsing_markup.py": 7,
    "unit/test_pattern_growth.py": 8,
    "unit/test_traceparent.py": 13,
}


def together() -> list[Path]:
    """The files with tests that need servers and have no mark by their folder."""
    elsewhere = {*spare(), *_files_of(*ALONE_FOLDERS, *CALM_FOLDERS)}
    return [file for file in _files() if file not in elsewhere]


def spare() -> list[Path]:
    """The files with tests that need no server."""
    return [file for file in _files_of(*SPARE_FOLDERS) if not _names(file, "stack")]


def marked(mark: str, folders: Sequence[str]) -> list[Path]:
    """The files in which tests with this mark may be: all of these folders, and those that name it."""
    return [file for file in _files() if kind(file) in folders or _names(file, mark)]


def shared_out(found: Iterable[Path], many: int) -> list[list[Path]]:
    """The files in as many lists, which take about as long as each other: the longest first, each to the list that is
    shortest so far (Graham, "Bounds on multiprocessing timing anomalies", 1969)."""
    lanes: list[list[Path]] = [[] for _ in range(many)]
    taken = [0.0] * many
    for file in sorted(found, key=_seconds, reverse=True):
        shortest = taken.index(min(taken))
        lanes[shortest].append(file)
        taken[shortest] += _seconds(file)
    return [lane for lane in lanes if lane]


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
