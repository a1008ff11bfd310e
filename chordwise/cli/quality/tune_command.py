"""``chordwise tune``: choose weights and fusion by judged queries, and validate the choice on held-out ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from chordwise.api.profiles import Profile
from chordwise.api.queries import QueryKeywords
from chordwise.async_client import AsyncChordwise
from chordwise.cli import screen
from chordwise.cli.quality.evaluate_command import Folder, run_queries
from chordwise.errors import ChordwiseError, InvalidInput
from chordwise.evaluation.ask import Ask, Measured, ask_all
from chordwise.evaluation.collection import JudgedQuery, has_training, read_collection
from chordwise.evaluation.significance import Paired
from chordwise.evaluation.tune import Outcome, by_hash, read_knobs, split, tune

TOP_K = 50  # chunks: enough for ten documents, and at most what a channel recalls


def tune_profile(
    folder: Folder,
    namespace: Annotated[str, Option("--namespace", "-n", help="Namespace of its documents.")],
    profile: Annotated[str, Option("--profile", help="The profile to start from.")] = "default",
    store: Annotated[
        str | None, Option("--store", metavar="PROFILE", help="Store the choice as a version of this profile.")
    ] = None,
    share: Annotated[
        float, Option("--share", min=0, max=1, help="With --store: the share of queries that get it.")
    ] = 0.1,
    limit: Annotated[int, Option("--limit", min=1, help="Maximum number of queries on either side.")] = 200,
    seed: Annotated[int, Option("--seed", help="Seed for the choice of these queries.")] = 0,
) -> None:
    """Choose channel weights, fusion, gate and pool by judged queries.

    DIR is as for eval. If it has queries_train.jsonl and qrels_train.tsv the choice is made on those and validated on the
    main queries; else the queries are divided in two by a hash of their ids. A setting is only chosen if it is better
    than the profile by more than noise. The server answers some thousand queries in all.

    Exits with 1 if --store is given and the choice is not at least as good as the profile on held-out queries.
    """
    tuning, held_out, origin = _queries(folder, limit=limit, seed=seed)
    with screen.connect() as client:
        start = client.profile(profile)
        if start.trial_share:
            raise InvalidInput(f"profile {profile} has a trial under way: queries would get two versions of it")
        if not any(info.namespace == namespace and info.documents for info in client.namespaces()):
            raise InvalidInput(f"namespace {namespace} has no documents; chordwise eval ingests a collection")
        base = read_knobs(start.plan)

        async def run(client: AsyncChordwise, on_answer: Callable[[int], None]) -> Outcome:
            answered = 0

            async def ask(over: Mapping[str, Any], queries: Sequence[JudgedQuery]) -> list[Measured]:
                nonlocal answered
                options: QueryKeywords = {"namespace": namespace, "profile": start.name, "top_k": TOP_K}
                options["retrieve"] = over or None
                asks = [Ask(way="tuned", query=query, options=options) for query in queries]
                earlier = answered
                answered += len(asks)
                return await ask_all(client, asks, on_answer=lambda count: on_answer(earlier + count))

            return await tune(ask, base, start.plan, tuning=tuning, held_out=held_out)

        outcome = run_queries(run)
        stored: Profile | None = None
        if store is not None and outcome.flaw is None:
            config = _overlay(start.config, {"retrieve": outcome.overrides})
            stored = client.store_profile(store, config, note=_note(outcome), share=share)
    result = {
        "collection": folder.resolve().name,
        "namespace": namespace,
        "profile": start.name,
        "config_version": start.config_version,
        "queries_from": origin,
        "default": asdict(base),
        "chosen": asdict(outcome.chosen),
        "overrides": {"retrieve": outcome.overrides} if outcome.overrides else {},
        "tuning": _figures(outcome.tuning),
        "held_out": _figures(outcome.held_out),
        "tried": [{**asdict(tried), "difference": round(tried.difference, 6)} for tried in outcome.tried],
        "asked": outcome.asked,
        "degraded": outcome.degraded,
        "failed": outcome.failed,
        "flaw": outcome.flaw,
        "stored": None if stored is None else {"profile": stored.name, "versions": _versions(stored), "share": share},
    }
    if screen.as_json():
        screen.print_json(result)
    else:
        _show(outcome, stored)
    if store is not None and outcome.flaw is not None:
        raise ChordwiseError(f"nothing is stored: {outcome.flaw}")


def _queries(folder: Path, *, limit: int, seed: int) -> tuple[list[JudgedQuery], list[JudgedQuery], str]:
    """Return the queries to tune on, the held-out queries, and their origin. Raises InvalidInput."""
    main = read_collection(folder).queries
    if has_training(folder):
        origin, tuning, held_out = "train", list(read_collection(folder, training=True).queries), list(main)
        shared = {query.text for query in held_out}
        tuning = [query for query in tuning if query.text not in shared]  # never tune on held-out queries
    else:
        origin, (tuning, held_out) = "split", split(main, seed=seed)
    sides = [[query for _, query in by_hash(side, seed=seed)][:limit] for side in (tuning, held_out)]
    if not all(sides):
        raise InvalidInput(f"{folder} has too few judged queries to tune on some and judge by others")
    return sides[0], sides[1], origin


def _overlay(config: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with those of ``over`` in place of them, mapping by mapping."""
    merged = dict(config)
    for name, value in over.items():
        below = merged.get(name)
        nested = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = _overlay(below, value) if nested else value  # type: ignore[arg-type]  # both are mappings
    return merged


def _note(outcome: Outcome) -> str:
    result = outcome.held_out
    figures = f"{result.mean_a:.4f} to {result.mean_b:.4f} (p {result.p:.3f}, {result.queries} queries)"
    return f"tuned: held-out nDCG@10 {figures}"


def _versions(stored: Profile) -> dict[str, int | None]:
    return {"active": stored.config_version, "trial": stored.trial_version}


def _figures(result: Paired) -> dict[str, Any]:
    return {
        "queries": result.queries,
        "default_ndcg@10": round(result.mean_a, 4),
        "chosen_ndcg@10": round(result.mean_b, 4),
        "difference": round(result.difference, 4),
        "p": round(result.p, 4),
    }


def _show(outcome: Outcome, stored: Profile | None) -> None:
    columns = ("queries", "default", "chosen", "difference", "p")
    rows = (
        (
            *(name, result.queries, f"{result.mean_a:.4f}", f"{result.mean_b:.4f}"),
            *(f"{result.difference:+.4f}", f"{result.p:.3f}"),
        )
        for name, result in (("tuning", outcome.tuning), ("held out", outcome.held_out))
    )
    screen.print_table(("nDCG@10", *columns), rows, numbers=columns)
    screen.say("chosen: " + ", ".join(f"{name} {value}" for name, value in asdict(outcome.chosen).items()))
    if outcome.flaw is not None:
        screen.say(f"not worth storing: {outcome.flaw}")
    if stored is not None:
        trial = "" if stored.trial_version is None else f", version {stored.trial_version} on trial"
        screen.say(f"stored in profile {stored.name}: version {stored.config_version} active{trial}")
