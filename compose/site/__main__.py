"""Build the site into dist/site. Every internal link and anchor is checked: one that leads nowhere fails the build."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

from compose.localstack.places import LOCAL, ROOT

_HERE = Path(__file__).parent
_LOCK = _HERE / "requirements.lock"
_PACKAGES = LOCAL / "site/packages"
_PAGES = LOCAL / "site/pages"
_BESIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_CHINESE = "README.zh-CN.md"
_SITE = ROOT / "dist/site"
_INDEX = "search/search_index.json"
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
# Wide pictures and tables of the pages, which the theme would cut.
_CSS = ".md-typeset table:not([class]) { display: table } .md-grid { max-width: 76rem }\n"


def main() -> int:
    """Install the generator beside the project, put the pages into one folder per language, and build."""
    _install()
    stage(_PAGES)
    environment = {**os.environ, "PYTHONPATH": str(_PACKAGES), "NO_MKDOCS_2_WARNING": "1"}
    build = ["build", "--strict", "--clean", "--config-file", str(_HERE / "mkdocs.yaml")]
    status = subprocess.call([sys.executable, "-m", "mkdocs", *build], cwd=ROOT, env=environment)
    if status == 0:
        split_index(_SITE)
    return status


def sources() -> dict[str, tuple[str, str]]:
    """Return each page's language and address in the site, by its path in the repository."""
    pages = {name: ("en", address) for name, address in _BESIDE.items()} | {_CHINESE: ("zh", "index.md")}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        below = path.relative_to(ROOT / "docs")
        language = "zh" if below.parts[0] == "zh" else "en"
        address = below.relative_to("zh") if language == "zh" else below
        pages[f"docs/{below.as_posix()}"] = (language, address.as_posix())
    return pages


def stage(folder: Path) -> None:
    """Write all pages, with their links in the site's terms, and the pictures."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = sources()
    english = {address: name for name, (language, address) in pages.items() if language == "en"}
    for name, (language, address) in pages.items():
        file = folder / language / address
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text(encoding="utf-8")
        if language != "en":
            text = with_anchors(text, anchors((ROOT / english[address]).read_text(encoding="utf-8")))
        file.write_text(LINK.sub(lambda match, name=name: relinked(match, name, pages), text), encoding="utf-8")  # type: ignore[misc]
    images = folder / "en/images"
    shutil.copytree(ROOT / "docs/images", images)
    (images / "results").mkdir()
    for picture in (ROOT / "benchmarks/results").glob("*.svg"):
        shutil.copy(picture, images / "results")
    shutil.copy(ROOT / "api_gateway/console/favicon.svg", images)
    (images / "site.css").write_text(_CSS, encoding="utf-8")


def split_index(site: Path) -> None:
    """Give each language a search index of its own. Raises ValueError if theme/main.html does not have it read."""
    if '"base": "../zh/"' not in (site / "zh/index.html").read_text(encoding="utf-8"):
        raise ValueError("the Chinese pages do not search their own index: the block config of the theme has changed")
    index = json.loads((site / _INDEX).read_text(encoding="utf-8"))
    sections: dict[str, list[dict[str, str]]] = {"": [], "zh/": []}
    for section in index["docs"]:
        folder = "zh/" if section["location"].startswith("zh/") else ""
        sections[folder].append({**section, "location": section["location"].removeprefix(folder)})
    for folder, found in sections.items():
        file = site / folder / _INDEX
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({**index, "docs": found}, ensure_ascii=False), encoding="utf-8")


def anchors(text: str) -> list[str]:
    """Return the anchors of a page's headings, as sites and code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", text), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings)
    return [re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain]


def with_anchors(text: str, names: list[str]) -> str:
    """Return a translated page to whose beginning the anchors of the original lead, unless the page places them itself:
    pages that are not translated link to them."""
    title, _, rest = text.partition("\n")
    missing = "".join(f'<a id="{name}"></a>' for name in names[1:] if f'id="{name}"' not in text)
    return f"{title}\n\n{missing}\n{rest}"


def relinked(match: re.Match[str], page: str, pages: dict[str, tuple[str, str]]) -> str:
    """Return a link as it has to be in the site: of another page or picture its address there, of a source file the
    text alone. Raises FileNotFoundError for a link to nothing."""
    target = PurePosixPath(os.path.normpath(PurePosixPath(page).parent / match["path"])).as_posix()
    if not (ROOT / target).exists():
        raise FileNotFoundError(f"{page}: {match['path']} does not exist")
    if target in pages:
        address = pages[target][1]
    elif target.startswith("docs/images/"):
        address = target.removeprefix("docs/")
    elif target.startswith("benchmarks/results/") and target.endswith(".svg"):
        address = target.replace("benchmarks/", "images/", 1)
    else:
        return match["text"]
    start = PurePosixPath(pages[page][1]).parent
    return f"{match['image']}[{match['text']}]({os.path.relpath(address, start)}{match['anchor'] or ''})"


def _install() -> None:
    """Install the locked packages into a folder of their own, unless they are there."""
    wanted = hashlib.sha256(_LOCK.read_bytes()).hexdigest()
    stamp = _PACKAGES / "stamp"
    if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
        return
    shutil.rmtree(_PACKAGES, ignore_errors=True)
    install = ["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--target"]
    subprocess.run([sys.executable, *install, _PACKAGES, "-r", _LOCK], check=True)
    stamp.write_text(wanted, encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())
