"""The entities of a story: people, places, things, and what they are like from which story time on."""

from pipeline.keyword.normal_form import normal_form

_LONGEST_KEY = 255  # characters, as many as the store compares


def name_key(name: str) -> str:
    """Return the key under which spellings of a name match: compatibility forms, case and white space do not count."""
    return " ".join(normal_form("NFKC", name).casefold().split())[:_LONGEST_KEY]
