"""Where things are: the checkout, its virtual environment, and what the local stack keeps under `.local/`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / ".local"
VENV = ROOT / ".venv"
ENVIRONMENT = LOCAL / "env"  # what `make up` writes for the command line client


@dataclass(frozen=True, slots=True)
class StackFolder:
    """The folders of one stack. Names are `up`, `demo`, `test`, `bench`, or whatever `with` is given."""

    name: str
    local: Path = LOCAL

    @property
    def path(self) -> Path:
        return self.local / "stacks" / self.name

    @property
    def data(self) -> Path:
        """One folder per server; removed by ``--fresh``."""
        return self.path / "data"

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.path / "logs"

    @property
    def run(self) -> Path:
        """Process ids, generated configuration, the beat schedule."""
        return self.path / "run"

    @property
    def lock(self) -> Path:
        """Held as long as a supervisor of this stack lives."""
        return self.path / "lock"

    @property
    def state(self) -> Path:
        """Which processes belong to the stack, for `down` and for tests that kill one."""
        return self.run / "state.json"

    @property
    def environment(self) -> Path:
        """The stack's CHORDWISE_ variables as KEY=value lines, for its owner only."""
        return self.path / "env"

    @property
    def secrets(self) -> Path:
        """Generated passwords, for its owner only."""
        return self.path / "secrets.json"

    def make(self) -> None:
        """Create the missing folders; only the owner may read logs and run."""
        for folder in (self.path, self.data, self.logs, self.run):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.logs, self.run):
            folder.chmod(0o700)
        for log in self.logs.glob("*.log"):  # those of a stack that an older version made
            log.chmod(0o600)


def stack_names() -> list[str]:
    """Every stack that was ever started here."""
    folder = LOCAL / "stacks"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
