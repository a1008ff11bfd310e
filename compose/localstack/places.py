"""Paths: the checkout, its virtual environment, and the local stack's folders under `.local/`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / ".local"
VENV = ROOT / ".venv"
DIST = ROOT / "dist"  # written by `make dist`
CLIENT = "chordwise"  # the folder of the distribution chordwise-client; that of the server is the root
PROJECTS = ("pyproject.toml", f"{CLIENT}/pyproject.toml")
ENVIRONMENT = LOCAL / "env"  # written by `make up` for the command line client


class StackFolder:
    """The folders and files of one stack. Names are `up`, `demo`, `test`, `bench`, or the argument of `with`."""

    def __init__(self, name: str, local: Path = LOCAL) -> None:
        self.name = name
        self.path = local / "stacks" / name
        self.data = self.path / "data"  # of the servers, one subfolder each; removed by ``--fresh``
        self.logs = self.path / "logs"  # one file per process
        self.run = self.path / "run"  # process ids, generated configuration and the beat schedule
        self.lock = self.path / "lock"  # held as long as a supervisor of this stack lives
        self.state = self.run / "state.json"  # the stack's processes, for `down` and for tests that kill one
        # For their owner only: CHORDWISE_ variables as KEY=value lines, generated passwords, codes of sign-in links.
        self.environment = self.path / "env"
        self.secrets = self.path / "secrets.json"
        self.sign_in = self.run / "sign-in"

    def make(self) -> None:
        """Create the missing folders; only the owner may read logs and run."""
        for folder in (self.path, self.data, self.logs, self.run):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.logs, self.run):
            folder.chmod(0o700)
        for log in self.logs.glob("*.log"):  # those of a stack made by an older version
            log.chmod(0o600)


def stack_names() -> list[str]:
    """Return every stack that was ever started here."""
    folder = LOCAL / "stacks"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
