"""``chordwise dictionary``: synonyms, stop words, phrases and rules of a namespace, or of all."""

from typing import Annotated

import typer
from typer import Option

from chordwise.api.dictionaries import Dictionary
from chordwise.cli import screen
from chordwise.cli.profiles_command import JsonFile
from chordwise.errors import InvalidInput

dictionary = typer.Typer(
    help="Synonyms, stop words, phrases and rules of a namespace, or of all: show, add, store, delete.",
    no_args_is_help=True,
)

OfNamespace = Annotated[
    str | None, Option("--namespace", "-n", help="Words of this namespace. Default: of all namespaces.")
]
LISTS = ("synonyms", "stop_words", "phrases", "rules")


@dictionary.command()
def show(namespace: OfNamespace = None) -> None:
    """Show the words of a namespace, or those of all."""
    with screen.connect() as client:
        words = client.dictionary(namespace=namespace)
    facts = {
        "of": words.namespace or "all namespaces",
        "version": words.version,
        "synonyms": "; ".join(map(" = ".join, words.synonyms)),
        "stop words": ", ".join(words.stop_words),
        "phrases": ", ".join(words.phrases),
        "rules": "; ".join(f"{rule.when}: {rule.document_id} × {rule.boost}" for rule in words.rules),
    }
    screen.print_facts(words, facts)


@dictionary.command()
def add(
    synonyms: Annotated[
        list[str] | None, Option("--synonyms", metavar="A,B,…", help="Expressions that mean the same; repeatable.")
    ] = None,
    stop_words: Annotated[
        list[str] | None, Option("--stop-word", help="A word to ignore in queries; repeatable.")
    ] = None,
    phrases: Annotated[
        list[str] | None, Option("--phrase", help="Words to search as one expression; repeatable.")
    ] = None,
    namespace: OfNamespace = None,
) -> None:
    """Add words to those that are there."""
    groups = [
        [word.strip() for word in group.replace("，", ",").split(",") if word.strip()] for group in synonyms or ()
    ]
    if not (groups or stop_words or phrases):
        raise typer.BadParameter("give --synonyms, --stop-word or --phrase")
    if any(len(group) < 2 for group in groups):
        raise typer.BadParameter("needs at least two expressions with a comma between them", param_hint="--synonyms")
    with screen.connect() as client:
        stored = client.extend_dictionary(
            namespace=namespace, synonyms=groups, stop_words=stop_words or (), phrases=phrases or ()
        )
    _report(stored)


@dictionary.command()
def store(file: JsonFile, namespace: OfNamespace = None) -> None:
    """Replace all words by those of a file with the lists synonyms, stop_words, phrases and rules."""
    words = screen.read_json(file, dict)
    if unknown := sorted(words.keys() - {*LISTS, "namespace", "version"}):
        raise InvalidInput(f"{file} has {unknown[0]!r}; known are {', '.join(LISTS)}")
    with screen.connect() as client:
        stored = client.store_dictionary(namespace=namespace, **{name: words.get(name) or () for name in LISTS})
    _report(stored)


@dictionary.command()
def delete(namespace: OfNamespace = None) -> None:
    """Delete the words of a namespace, or those of all; not those of single namespaces with the latter."""
    with screen.connect() as client:
        client.delete_dictionary(namespace=namespace)
    screen.report({"namespace": namespace, "deleted": True}, "deleted")


def _report(words: Dictionary) -> None:
    counts = ((name, len(getattr(words, name))) for name in LISTS)
    sentence = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts)
    screen.report(words.raw, f"version {words.version}: {sentence}")
