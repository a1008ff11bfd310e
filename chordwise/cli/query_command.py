"""``chordwise query``, ``trace``, ``traces`` and ``why-not``: run a query, show which channel found each hit, explain it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from chordwise.api.explanations import AnswerEvent
from chordwise.api.queries import Hit, QueryKeywords, QueryResult, Stats
from chordwise.cli import screen, short_ids
from chordwise.cli.facet_lines import facet_line, spelled
from chordwise.cli.query_file import answer_file
from chordwise.cli.trace_tables import milliseconds, show_trace
from chordwise.contract.answer import Degradation
from chordwise.errors import ChordwiseError

if TYPE_CHECKING:  # rich is imported where something is drawn: --json needs none of it
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

METHODS = ("hybrid", "full_text", "semantic", "keyword", "vector")
_RUNS = re.compile(rf"[{screen.WIDE}]+|[^\W{screen.WIDE}]+")
_SENTENCES = re.compile(r".+?(?:[.!?](?=\s)|[。！？]+|\n{2,}|$)\s*", re.DOTALL)
_LONGEST_LEAD = 160  # characters of a sentence before its first word of the query
_NARROW = 64  # columns; below it hits are paragraphs, not rows
_SNIPPET_LINES = 2
_SCORE_WIDTH, _CONFIDENCE_WIDTH = 7, 10


def query(
    text: Annotated[str | None, Argument(metavar="[TEXT]", help="The question.")] = None,
    namespaces: Annotated[
        list[str] | None, Option("--namespace", "-n", help="Namespace to search; repeatable.")
    ] = None,
    file: Annotated[
        Path | None,
        Option(
            "--file", exists=True, dir_okay=False, help="Instead of TEXT: many questions, one a line, or JSON lines."
        ),
    ] = None,
    output: Annotated[str, Option("--output", "-o", help="With --file: the file for the answers as JSON lines.")] = "-",
    top_k: Annotated[int | None, Option("--top-k", "-k", help="Number of chunks. Default: the server's.")] = None,
    method: Annotated[
        str | None, Option("--method", help="hybrid, full_text (or keyword), semantic (or vector).")
    ] = None,
    type: Annotated[str | None, Option("--type", help="Only documents of this type.")] = None,
    tags: Annotated[list[str] | None, Option("--tag", help="Only documents with this tag; repeatable.")] = None,
    filter: Annotated[
        str | None, Option("--filter", help="Only documents that fit, as in 'year > 2020 and not tags:draft'.")
    ] = None,
    facets: Annotated[
        list[str] | None, Option("--facet", help="Count the values of a field, as in tags or metadata.KEY; repeatable.")
    ] = None,
    group_by: Annotated[
        str | None, Option("--group-by", help="Group by such a field: the best --top-k values, with hits of each.")
    ] = None,
    group_size: Annotated[int | None, Option("--group-size", min=1, help="Hits of a group. Default: 3.")] = None,
    profile: Annotated[str | None, Option("--profile", help="Use this profile of retrieval.")] = None,
    rerank: Annotated[bool | None, Option("--rerank/--no-rerank", help="Override the profile.")] = None,
    answer: Annotated[bool, Option("--answer", help="Also have a language model answer from the chunks.")] = False,
    trace: Annotated[bool, Option("--trace", help="Also print the trace of the answer.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the answer as one JSON document.")] = False,
) -> None:
    """Ask a question.

    Shows the rank and score of each chunk, the probability that it answers the question, its rank in each channel that
    found it, its document and the sentence that fits the question best; below that how often each channel is strongest, the
    degradations, and the time of each step. An answer without hits is a success. With --answer, the answer in words of the
    server's language model, as it is written, and the chunks that it cites.

    With --file, all questions of a file are answered as one batch, behind the questions of callers that wait: those of
    questions.jsonl are {"query_text": …} with an "id" and other fields of a query. Exits with 1 if one has no answer.
    """
    screen.require_choice(method, METHODS, "--method")
    if (text is None) == (file is None):
        raise BadParameter("give either TEXT or --file", param_hint="TEXT")
    filters = {name: value for name, value in (("type", type), ("tags", tags), ("where", filter)) if value}
    options: QueryKeywords = {
        "namespaces": namespaces,
        "top_k": top_k,
        "method": method,
        "filters": filters or None,
        "facets": facets,
        "group_by": group_by,
        "group_size": group_size,
        "profile": profile,
        "rerank": rerank,
        "highlight": True if file is None else None,
        "trace": trace or None,
    }
    if file is not None:
        answer_file(file, output, **options)
        return
    if not namespaces:
        raise BadParameter("name at least one", param_hint="--namespace")
    with screen.connect() as client:
        result = client.query(str(text), **options)
        explained = client.trace(result) if trace else None
        if as_json:
            written = {"answer": client.write_answer(result).raw} if answer else {}
            screen.print_json({**result.raw, **({"trace": explained.raw} if explained else {}), **written})
            return
        show(result, screen.stdout(), several=len(namespaces) > 1)
        if answer:
            screen.say("")
            show_answer(client.stream_answer(result), screen.stdout())
    if explained:
        screen.say("")
        show_trace(explained, screen.stdout())
        screen.say(f"\nTo see why another chunk is missing: chordwise why-not {screen.clean(result.query_id)} CHUNK_ID")


_UNSURE = ("none_configured", "below_threshold")  # of ``stats.fallback``


def show(result: QueryResult, console: Console, *, several: bool = False) -> None:
    """Print an answer, fitted to the width of ``console``. ``several``: name the namespace of each hit."""
    from rich.text import Text

    words = query_words(str(result.query.get("query_text") or ""))
    if result.chunks and (result.stats.fallback or "").endswith(_UNSURE):
        console.print("The answer is probably not in your documents: no passage is likely to hold it.\n")
    if not result.chunks:
        console.print("Nothing found.")
    elif result.groups:
        hits = {hit.chunk_id: hit for hit in result.chunks}
        for group in result.groups:
            value = "(without a value)" if group.value is None else screen.clean(spelled(group.value))
            console.print(Text(value, style="bold underline"))
            _print_hits(tuple(hits[chunk_id] for chunk_id in group.chunk_ids), console, several, words)
            console.print()
    else:
        _print_hits(result.chunks, console, several, words)
    console.print()
    for facet in result.facets:
        console.print(Text.assemble((f"{screen.clean(facet.field)}: ", "bold"), facet_line(facet)), soft_wrap=True)
    for name, value in summary(result.stats):
        colour = "yellow" if name == "degraded" else ""
        console.print(Text.assemble((f"{name}: ", "bold"), (value, colour)))


def _print_hits(hits: tuple[Hit, ...], console: Console, several: bool, words: Sequence[str]) -> None:
    if console.width >= _NARROW:
        console.print(_table(hits, console, several, words))
        return
    for rank, hit in enumerate(hits, start=1):
        if rank > 1:
            console.print()
        _paragraph(rank, hit, console, several, words)


def _table(hits: tuple[Hit, ...], console: Console, several: bool, words: Sequence[str]) -> Table:
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    channels_of_hits = [_found_by(hit) for hit in hits]
    rank_width = len(str(len(hits)))
    channels_width = max(8, *(cell_len(line) for lines in channels_of_hits for line in lines))
    taken = (rank_width, _SCORE_WIDTH, _CONFIDENCE_WIDTH, channels_width)
    width = console.width - sum(taken) - 2 * len(taken)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("#", justify="right", width=rank_width)
    table.add_column("score", justify="right", width=_SCORE_WIDTH)
    table.add_column("confidence", justify="right", width=_CONFIDENCE_WIDTH)
    table.add_column("found by", width=channels_width)
    table.add_column("document", width=width)
    for rank, (hit, channels) in enumerate(zip(hits, channels_of_hits, strict=True), start=1):
        title = _title(hit, several, width)
        gap = Text("\n" if rank < len(hits) else "")
        text = Text("\n").join([title, *_snippet(hit.text, width, _words(hit, words))]).append(gap)
        table.add_row(str(rank), f"{hit.score:.4f}", _confidence(hit), Text("\n".join(channels), style="cyan"), text)
    return table


def _paragraph(rank: int, hit: Hit, console: Console, several: bool, words: Sequence[str]) -> None:
    """Print one hit as a paragraph, for narrow terminals."""
    from rich.text import Text

    console.print(_title(hit, several, console.width, lead=f"{rank}. "))
    for line in screen.folded(
        f"{hit.score:.4f}  confidence {_confidence(hit)}  {', '.join(_found_by(hit))}", console.width, lines=3
    ):
        console.print(Text(line, style="cyan"))
    for snippet in _snippet(hit.text, console.width, _words(hit, words)):
        console.print(snippet)


def _confidence(hit: Hit) -> str:
    """Format the probability that the hit is relevant; a dash if the server sent none."""
    return "-" if hit.confidence is None else f"{hit.confidence:.0%}"


def _title(hit: Hit, several: bool, width: int, lead: str = "") -> Text:
    """Return a line of at most ``width`` cells with the title, cut so that the id fits behind it."""
    from rich.text import Text

    name = Text(screen.clean(f"{hit.namespace}/{hit.document_id}" if several else hit.document_id), style="green")
    title = Text(lead + screen.clean(hit.title or ""), style="bold")
    title.truncate(max(width // 2, width - name.cell_len - 2), overflow="ellipsis")
    line = Text.assemble(title, "  " if hit.title else "", name)
    line.truncate(width, overflow="ellipsis")
    return line


def _found_by(hit: Hit) -> list[str]:
    """Return the rank of the chunk in each channel, and its rank before reranking."""
    lines = [f"{source.channel} #{source.rank}" for source in hit.sources if source.rank]
    if hit.rerank and hit.rerank.from_rank:
        lines.append(f"fused #{hit.rerank.from_rank}")
    return [screen.clean(line) for line in lines or [hit.source or "-"]]


def _snippet(text: str, width: int, words: Sequence[str]) -> list[Text]:
    """Return the first lines of a text from its best sentence on, with the words of the query in bold."""
    from rich.text import Text

    start = best_sentence(text, words)
    shown = ("… " if start else "") + screen.clean(text[start : start + width * 8])
    lines = [Text(line, style="dim") for line in screen.folded(shown, width, lines=_SNIPPET_LINES)]
    for line in lines:
        for word in words:
            line.highlight_regex(_whole(word), "not dim bold")
    return lines


def _words(hit: Hit, words: Sequence[str]) -> Sequence[str]:
    """Return the words that the server highlights in a hit, synonyms included; ``words`` if it sent none."""
    spans = hit.raw.get("highlights") or ()
    marked = (hit.text[span["start"] : span["end"]].casefold() for span in spans)
    return list(dict.fromkeys(word for word in marked if word.strip())) or words


def query_words(query: str) -> list[str]:
    """Return the words to look for in a text: beginnings of words of four letters and more, two letters shorter than the
    word but at least four, shorter words only where there is no longer one, and pairs of characters of scripts without
    spaces."""
    runs = _RUNS.findall(query.casefold())
    long = [run[: max(4, len(run) - 2)] for run in runs if not screen.is_wide(run) and len(run) >= 4]
    pairs = [run[at : at + 2] for run in runs if screen.is_wide(run) for at in range(max(1, len(run) - 1))]
    return list(dict.fromkeys((*long, *pairs) if long or pairs else runs))


def best_sentence(text: str, words: Sequence[str]) -> int:
    """Return where the first sentence with most of ``words`` begins, longer ones counting more; 0 if none has one."""
    patterns = [(re.compile(_whole(word)), len(word)) for word in words]
    best, first, most = 0, 0, 0
    for sentence in _SENTENCES.finditer(text):
        found = [(match.start(), weight) for pattern, weight in patterns if (match := pattern.search(sentence[0]))]
        if (held := sum(weight for _, weight in found)) > most:
            best, first, most = sentence.start(), min(at for at, _ in found), held
    return best if first <= _LONGEST_LEAD else max(best, text.rfind("\n", best, best + first) + 1)


def _whole(word: str) -> str:
    """Return the pattern of a word's beginning, or of characters anywhere."""
    return f"(?i){re.escape(word)}" if screen.is_wide(word) else rf"(?i)\b{re.escape(word)}\w*"


def summary(stats: Stats) -> list[tuple[str, str]]:
    """Return the statistics as named lines; fields that the server left out are omitted."""
    lines: list[tuple[str, str]] = []
    if stats.degraded or stats.degradations:
        lines.append(("degraded", "; ".join(map(_degradation, stats.degradations)) or "yes"))
    lines.extend(("remark", remark) for remark in stats.remarks)
    if stats.hits:
        lines.append(("hits", ", ".join(f"{name} {count}" for name, count in stats.hits.items())))
    if stats.source_share:
        shares = (f"{name} {share:.0%}" for name, share in stats.source_share.items())
        lines.append(("share", f"{', '.join(shares)} of the hits, by the strongest channel"))
    if stats.latency_ms:
        steps = ", ".join(f"{name} {value:.1f}" for name, value in stats.latency_ms.items() if name != "total")
        total = stats.latency_ms.get("total")
        lines.append(("time", (f"{total:.1f} ms" if total is not None else "") + (f" ({steps} ms)" if steps else "")))
    if stats.rerank_lift is not None:
        lines.append(("rerank lift", f"{stats.rerank_lift:+.4f}"))
    return [(name, screen.clean(value)) for name, value in lines]


def _degradation(loss: Degradation) -> str:
    return ", ".join(filter(None, (loss.part, loss.code, loss.detail)))


def show_answer(events: Iterable[AnswerEvent], console: Console) -> None:
    """Print an answer, on a terminal as it is written, and the chunks it cites. Raises ChordwiseError without one."""
    from rich.text import Text

    provisional, checked = "", None
    for event in events:
        checked = event.answer
        if event.delta and console.is_terminal:
            provisional += event.delta
            console.print(Text(screen.clean_lines(event.delta)), end="", soft_wrap=True)
    if provisional:
        console.print()
    if checked is None or checked.text is None:
        losses = "; ".join(_degradation(loss) for loss in checked.degradations) if checked else ""
        raise ChordwiseError(f"no answer was written: {screen.clean(losses) or 'the model gave none'}")
    if checked.text != provisional:
        console.print(
            Text.assemble(("Checked: ", "bold") if provisional else "", screen.clean_lines(checked.text)),
            soft_wrap=True,
        )
    for citation in checked.citations:
        title = screen.clean(citation.title or "")
        console.print(
            Text.assemble(citation.marker, " ", (title, "bold"), "  ", (screen.clean(citation.document_id), "green"))
        )


QueryId = Annotated[str, Argument(metavar="QUERY_ID", help="The query's id, from its answer; 8 digits suffice.")]


def trace(query_id: QueryId) -> None:
    """Explain the answer of a query whose trace is kept: asked with --trace, or listed by traces.

    Prints the numbers behind each chunk's position, then the hits, drops and time of each step.
    """
    with screen.connect() as client:
        explained = client.trace(short_ids.query(client, query_id))
    if screen.as_json():
        screen.print_json(explained.raw)
    else:
        show_trace(explained, screen.stdout())


def traces(
    mark: Annotated[
        str | None, Option("--mark", help="Only slow, degraded, failed, empty, requested or sampled queries.")
    ] = None,
    namespace: Annotated[str | None, Option("--namespace", "-n", help="Only queries to this namespace.")] = None,
    profile: Annotated[str | None, Option("--profile", help="Only queries with this profile.")] = None,
    limit: Annotated[int, Option("--limit", min=1, help="Number of rows.")] = 50,
) -> None:
    """List kept traces, newest first. Needs a key with the scope admin."""
    with screen.connect() as client:
        rows = client.traces(mark=mark, namespace=namespace, profile=profile, limit=limit)
    screen.print_list(
        rows,
        ("asked", "query", "question", "namespaces", "marks", "chunks", "ms"),
        lambda row: (
            *(screen.moment(row.asked_at), row.query_id, row.text, ", ".join(row.namespaces)),
            *(", ".join(row.marks), row.chunks, milliseconds(row.total_ms)),
        ),
        empty="No traces.",
        numbers=("chunks", "ms"),
    )


def why_not(
    query_id: QueryId, chunk_id: Annotated[str, Argument(metavar="CHUNK_ID", help="The chunk that was expected.")]
) -> None:
    """Explain why a chunk is not in an answer: the step that dropped it, and the number that decided."""
    with screen.connect() as client:
        reason = client.why_not(short_ids.query(client, query_id), chunk_id)
    if screen.as_json():
        screen.print_json(reason.raw)
        return
    screen.say(screen.clean(f"{reason.stage}: {reason.detail}"))
    if reason.channels:
        numbers = ("its score", "its rank", "last recalled", "recalled")
        keys = ("score", "rank", "cutoff", "recalled")
        rows = (
            (name, channel.get("status"), *(_number(channel.get(key)) for key in keys))
            for name, channel in reason.channels.items()
        )
        screen.print_table(("channel", "status", *numbers), rows, numbers=numbers)
    if reason.replayed:
        screen.say("The query had no trace; it was run again on the current documents.")


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, int | float) else screen.clean(str(value))
