"""The names of environment variables that begin with CHORDWISE_: refuse one that is no setting, with the nearest name."""

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Final

PREFIX: Final = "CHORDWISE_"

# Variables of other programs that may stand in the same environment, by their reader.
OF_OTHERS: Final = frozenset(
    {
        "CHORDWISE_URL", "CHORDWISE_API_KEY",  # the client
        "CHORDWISE_STACK_DIR", "CHORDWISE_FLOWER_USER", "CHORDWISE_FLOWER_PASSWORD",  # the local stack
        "CHORDWISE_PASSWORD",  # compose: the script that creates the user in PostgreSQL
        "CHORDWISE_GRAFANA_URL", "CHORDWISE_JUDGED_DATA", "CHORDWISE_PREVIOUS_WHEELS",  # pictures and tests
    }
)  # fmt: skip
# Of the local stack's servers and of tests; and those that Kubernetes and Docker derive from the names of services.
_OF_OTHERS: Final = re.compile(
    r"^CHORDWISE_(?:LOCAL|TEST)_|_SERVICE_(?:HOST|PORT)(?:_|$)|_PORT_\d{1,5}_(?:TCP|UDP)(?:_(?:ADDR|PORT|PROTO))?$|_ENV_"
)


def flaw_of_names(environment: Iterable[tuple[str, str]], settings: Collection[str]) -> str:
    """Return a sentence about the first variable by name that is no setting, empty if there is none. ``settings``: the
    names of all. An empty variable counts as not set, and upper and lower case as equal."""
    for given in sorted(name for name, value in environment if value):
        name = given.upper()
        if not name.startswith(PREFIX) or name in settings or name in OF_OTHERS or _OF_OTHERS.search(name):
            continue
        own = name.removeprefix(PREFIX)
        near = difflib.get_close_matches(own, sorted(each.removeprefix(PREFIX) for each in settings), n=1, cutoff=0.7)
        if near:
            return f"{given} is not a setting; did you mean {PREFIX}{near[0]}?"
        return f"{given} is not a setting of this release; .env.example lists them: remove or correct it"
    return ""
