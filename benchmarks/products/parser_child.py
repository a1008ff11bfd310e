"""Turn files into text with one program, named by the first argument; runs in a virtual environment of its own.

Reads a list of paths, and writes their texts (null for a file that the program refuses), the processor time in seconds
and the largest resident memory in MB.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path


def main(program: str) -> None:
    """Read every file."""
    read = {"ours": _ours, "markitdown": _markitdown, "kreuzberg": _kreuzberg}[program]()
    texts: dict[str, str | None] = {}
    began = time.process_time()
    for path in json.loads(sys.stdin.read()):
        try:
            texts[path] = read(path)
        except Exception as error:  # noqa: BLE001  # whatever a program raises is its refusal
            print(f"{path}: {type(error).__name__}", file=sys.stderr)
            texts[path] = None
    taken = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"texts": texts, "cpu_s": taken, "memory_mb": memory}))


def _ours() -> Callable[[str], str]:
    from pipeline.parsing.formats import media_type_of, parse

    def read(path: str) -> str:
        name = Path(path).name
        return parse(Path(path).read_bytes(), media_type=media_type_of(name, None), filename=name).text

    return read


def _markitdown() -> Callable[[str], str]:
    from markitdown import MarkItDown

    converter = MarkItDown()
    return lambda path: str(converter.convert(path).text_content)


def _kreuzberg() -> Callable[[str], str]:
    from kreuzberg import ExtractionConfig, extract_file_sync

    config = ExtractionConfig(output_format="markdown")
    return lambda path: str(extract_file_sync(path, config=config).content)


if __name__ == "__main__":
    main(sys.argv[1])
