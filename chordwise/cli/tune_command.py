"""``chordwise tune``: choose weights and fusion by judged queries, and prove the choice on held-out ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from chordwise.api.profiles import Profile
from chordwise.async_client import AsyncChordwise
from chordwise.cli import screen
from chordwise.errors import ChordwiseError, InvalidInput
from chordwise.evaluation.ask import Ask, Measured, ask_all
from chordwise.evaluation.collection import JudgedQuery, has_training, read_collection
from chordwise.evaluation.knobs import by_hash, read_knobs, split
from chordwise.evaluation.significance import Paired
from chordwise.evaluation.tune import Outcome, tune

TOP_K = 50  # chunks: enough for ten documents, and no more than a channel recalls


def tune_profile(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="The folder of the collection.")
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where its documents are.")],
    profile: Annotated[str, typer.Option("--profile", help="The profile to begin with.")] = "default",
    store: Annotated[
        str | None, typer.Option("--store", metavar="PROFILE", help="Store the choice as a version of this profile.")
    ] = None,
    share: Annotated[
        float, typer.Option("--share", min=0, max=1, help="With --store: which part of the queries gets it.")
    ] = 0.1,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many queries on either side.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="Decides which queries those are.")] = 0,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Queries under way at once.")] = 4,
    as_json: screen.Json = False,
) -> None:
    """Choose channel weights, fusion, gate and pool by judged queries.

    DIR is as for eval. If it has queries_train.jsonl and qrels_train.tsv the choice is made on those, and the main ones
    are asked once, at the end; else the queries are divided in two by a hash of their ids. What is not better than the
    profile by more than noise is not chosen. Every candidate is asked of the server, some thousand queries in all.

    Exits with 1 if --store is given and the choice is not at least as good as the profile on held-out queries.
    """
    tuning, held_out, origin = _queries(folder, limit=limit, seed=seed)
    with screen.connect() as client:
        begun = client.profile(profile)
        if begun.trial_share:
            raise InvalidInput(f"profile {profile} has a trial under way: queries would get two versions of it")
        if not any(known.namespace == namespace and known.documents for known in client.namespaces()):
            raise InvalidInput(f"namespace {namespace} has no documents; chordwise eval ingests a collection")
        base = read_knobs(begun.plan)
        outcome = asyncio.run(_tune(begun, namespace, tuning, held_out, concurrency=concurrency, quiet=as_json))
        stored: Profile | None = None
        if store is not None and outcome.flaw is None:
            config = _with_overrides(begun.config, outcome.overrides)
            stored = client.store_profile(store, config, note=_note(outcome), share=share)
    result = {
        "collection": folder.resolve().name,
        "namespace": namespace,
        "profile": begun.name,
        "config_version": begun.config_version,
        "queries_from": origin,
        "default": asdict(base),
        "chosen": asdict(outcome.chosen),
        "overrides": {"retrieve": outcome.overrides} if outcome.overrides else {},
        "tuning": _figures(outcome.tuning),
        "held_out": _figures(outcome.held_out),
        "tried": [{**asdict(each), "difference": round(each.difference, 6)} for each in outcome.tried],
        "asked": outcome.asked,
        "degraded": outcome.degraded,
        "failed": outcome.failed,
        "flaw": outcome.flaw,
        "stored": None if stored is None else {"profile": stored.name, "versions": _versions(stored), "share": share},
    }
    if as_json:
        screen.print_json(result)
    else:
        _show(outcome, stored)
    if store is not None and outcome.flaw is not None:
        raise ChordwiseError(f"nothing is stored: {outcome.flaw}")


def _queries(folder: Path, *, limit: int, seed: int) -> tuple[list[JudgedQuery], list[JudgedQuery], str]:
    """What to tune on, what to judge by, and where they are from. Raises InvalidInput."""
    main = read_collection(folder).queries
    if has_training(folder):
        origin, tuning, held_out = "train", list(read_collection(folder, training=True).queries), list(main)
        shared = {query.text for query in held_out}
        tuning = [query for query in tuning if query.text not in shared]  # nothing held out is tuned on
    else:
        origin, (tuning, held_out) = "split", split(main, seed=seed)
    sides = [[query for _, query in by_hash(side, seed=seed)][:limit] for side in (tuning, held_out)]
    if not all(sides):
        raise InvalidInput(f"{folder} has too few judged queries to tune on some and judge by others")
    return sides[0], sides[1], origin


async def _tune(
    begun: Profile,
    namespace: str,
    tuning: Sequence[JudgedQuery],
    held_out: Sequence[JudgedQuery],
    *,
    concurrency: int,
    quiet: bool,
) -> Outcome:
    known = screen.connection()
    answered = 0
    async with AsyncChordwise(known.url, known.api_key) as client:
        with screen.Ticker(quiet=quiet) as ticker:

            async def ask(over: Mapping[str, Any], queries: Sequence[JudgedQuery]) -> list[Measured]:
                nonlocal answered
                asks = [
                    Ask(
                        way="tuned",
                        query=query,
                        options={
                            "namespace": namespace,
                            "profile": begun.name,
                            "top_k": TOP_K,
                            "retrieve": over or None,
                        },
                    )
                    for query in queries
                ]
                before = answered
                found = await ask_all(
                    client,
                    asks,
                    concurrency=concurrency,
                    on_answer=lambda count: ticker.tell("queries answered", before + count),
                )
                answered += len(asks)
                return found

            return await tune(ask, read_knobs(begun.plan), begun.plan, tuning=tuning, held_out=held_out)


def _with_overrides(config: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The profile's own settings with the choice over them."""
    return _overlaid(config, {"retrieve": over})


def _overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = _overlaid(below, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return merged


def _note(outcome: Outcome) -> str:
    held = outcome.held_out
    return f"tuned: held-out nDCG@10 {held.mean_a:.4f} to {held.mean_b:.4f} (p {held.p:.3f}, {held.queries} queries)"


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
    table = screen.table("nDCG@10", *columns, numbers=columns)
    for name, result in (("tuning", outcome.tuning), ("held out", outcome.held_out)):
        figures = (f"{result.mean_a:.4f}", f"{result.mean_b:.4f}", f"{result.difference:+.4f}", f"{result.p:.3f}")
        table.add_row(name, str(result.queries), *figures)
    screen.stdout().print(table)
    knobs = asdict(outcome.chosen)
    screen.say("chosen: " + ", ".join(f"{name} {value}" for name, value in knobs.items()))
    if outcome.flaw is not None:
        screen.say(f"not worth storing: {outcome.flaw}")
    if stored is not None:
        trial = "" if stored.trial_version is None else f", version {stored.trial_version} on trial"
        screen.say(f"stored in profile {stored.name}: version {stored.config_version} active{trial}")
