"""Paths: the checkout, its virtual environment, and the local stack's folders under `.local/`."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / ".local"
VENV = ROOT / ".venv"
DIST = ROOT / "dist"  # written by `make dist`
CLIENT = "chordwise"  # the folder of the distribution chordwise-client; that of the server is the root
PROJECTS = ("pyproject.toml", f"{CLIENT}/pyproject.toml")
ENVIRONMENT = LOCAL / "env"  # written by `make up` for the command line client


@dataclass(frozen=True, slots=True)
class StackFolder:
    """The folders of one stack. Names are `up`, `demo`, `test`, `bench`, or the argument of `with`."""

    name: str
    local: Path = LOCAL

    @property
    def path(self) -> Path:
        """The folder of the stack."""
        return self.local / "stacks" / self.name

    @property
    def data(self) -> Path:
        """Return the folder of the servers' data, one subfolder each; removed by ``--fresh``."""
        return self.path / "data"

    @property
    def logs(self) -> Path:
        """Return the folder of logs, one file per process."""
        return self.path / "logs"

    @property
    def run(self) -> Path:
        """Return the folder of process ids, generated configuration and the beat schedule."""
        return self.path / "run"

    @property
    def lock(self) -> Path:
        """Return the lock file, held as long as a supervisor of this stack lives."""
        return self.path / "lock"

    @property
    def state(self) -> Path:
        """Return the file of the stack's processes, for `down` and for tests that kill one."""
        return self.run / "state.json"

    @property
    def environment(self) -> Path:
        """Return the file of the stack's CHORDWISE_ variables as KEY=value lines, for its owner only."""
        return self.path / "env"

    @property
    def secrets(self) -> Path:
        """Return the file of generated passwords, for its owner only."""
        return self.path / "secrets.json"

    @property
    def sign_in(self) -> Path:
        """Return the folder of the codes of sign-in links, for its owner only."""
        return self.run / "sign-in"

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
