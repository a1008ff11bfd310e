"""``chordwise profiles`` and ``chordwise experiments``: settings of retrieval, their versions, and arms compared."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from chordwise.api.experiments import Experiment
from chordwise.api.profiles import Profile
from chordwise.cli import screen

profiles = typer.Typer(
    help="Profiles of retrieval: list, show, versions, store, activate, rollback, delete.", no_args_is_help=True
)
experiments = typer.Typer(help="Experiments: list, show, results, store, delete.", no_args_is_help=True)

Name = Annotated[str, Argument(metavar="NAME", help="The profile's name.")]
ExperimentId = Annotated[str, Argument(metavar="ID", help="The experiment's id.")]
JsonFile = Annotated[Path, Argument(metavar="FILE", help="A JSON file; - reads standard input.", allow_dash=True)]


@profiles.command("list")
def list_profiles() -> None:
    """List profiles with their active versions and trials."""
    with screen.connect() as client:
        rows = client.profiles()
    screen.print_list(
        rows,
        ("profile", "version", "trial", "built in", "note"),
        lambda row: (row.name, row.config_version, _trial(row), "yes" if row.built_in else "", row.note),
        numbers=("version",),
    )


@profiles.command("show")
def show_profile(
    name: Name, plan: Annotated[bool, Option("--plan", help="Every setting that applies, not only its own.")] = False
) -> None:
    """Show a profile: its active version and its own settings."""
    with screen.connect() as client:
        profile = client.profile(name)
    if screen.as_json():
        screen.print_json(profile.raw)
        return
    previous = profile.previous_version
    facts = {
        "profile": profile.name,
        "version": profile.config_version,
        "previous version": previous,
        "trial": _trial(profile) or None,
        "note": profile.note or None,
    }
    screen.print_facts(profile, {key: value for key, value in facts.items() if value is not None})
    screen.print_json(profile.plan if plan else profile.config)


@profiles.command("versions")
def list_versions(name: Name) -> None:
    """List the stored versions of a profile, newest first."""
    with screen.connect() as client:
        rows = client.profile_versions(name)
    screen.print_list(
        rows,
        ("version", "created", "by", "note"),
        lambda row: (row.config_version, screen.moment(row.created_at), row.created_by, row.note),
        empty="No stored versions: the built-in settings apply.",
        numbers=("version",),
    )


@profiles.command("store")
def store_profile(
    name: Name,
    file: JsonFile,
    note: Annotated[str, Option("--note", help="The reason, shown in the list of versions.")] = "",
    share: Annotated[
        float, Option("--share", min=0, max=1, help="Share of queries that use it; 0 leaves it inactive.")
    ] = 1.0,
) -> None:
    """Add a version of a profile; the file holds all its own settings."""
    config = screen.read_json(file, dict)
    with screen.connect() as client:
        stored = client.store_profile(name, config, note=note, share=share)
    state = "active" if share >= 1 else f"tried on {share:.0%} of the sessions" if share else "stored, not active"
    screen.report(stored.raw, f"{name}: version {stored.config_version} is {state}")


@profiles.command()
def activate(
    name: Name,
    version: Annotated[int, Argument(metavar="VERSION", min=1, help="The version's number.")],
    share: Annotated[float, Option("--share", min=0, max=1, help="Below 1: a trial beside the active version.")] = 1.0,
) -> None:
    """Activate a version of a profile, or try it on a share of the queries."""
    with screen.connect() as client:
        profile = client.activate_profile(name, version, share=share)
    _report(profile)


@profiles.command()
def rollback(name: Name) -> None:
    """End a trial, or go back to the previous version."""
    with screen.connect() as client:
        profile = client.rollback_profile(name)
    _report(profile)


@profiles.command("delete")
def delete_profile(name: Name) -> None:
    """Delete all stored versions; a built-in profile gets its built-in settings back."""
    with screen.connect() as client:
        client.delete_profile(name)
    screen.report({"profile": name, "deleted": True}, "deleted")


@experiments.command("list")
def list_experiments() -> None:
    """List experiments with their arms."""
    with screen.connect() as client:
        rows = client.experiments()
    screen.print_list(
        rows,
        ("experiment", "active", "arms"),
        lambda row: (row.experiment_id, "yes" if row.active else "no", ", ".join(_arms(row))),
        empty="No experiments.",
    )


@experiments.command("show")
def show_experiment(experiment_id: ExperimentId) -> None:
    """Show an experiment: its arms and its coverage, as JSON."""
    with screen.connect() as client:
        found = client.experiment(experiment_id)
    screen.print_json(found.raw if screen.as_json() else found.experiment)


@experiments.command()
def results(experiment_id: ExperimentId) -> None:
    """Compare the arms of an experiment by users' ratings; the first arm is the baseline."""
    with screen.connect() as client:
        rows = client.experiment_results(experiment_id)
    screen.print_list(
        rows,
        ("arm", "queries", "sessions", "good", "bad", "clicks", "mean click"),
        lambda row: (
            *(row.bucket, row.queries, row.sessions, row.good, row.bad, row.clicks),
            "" if row.mean_click_place is None else f"{row.mean_click_place:.1f}",
        ),
        empty="No ratings yet.",
        numbers=("queries", "sessions", "good", "bad", "clicks", "mean click"),
    )


@experiments.command("store")
def store_experiment(
    experiment_id: ExperimentId,
    file: JsonFile,
    active: Annotated[bool, Option("--active/--inactive", help="Whether queries are assigned to it.")] = True,
) -> None:
    """Add or replace an experiment; the file holds its arms and its coverage."""
    experiment = screen.read_json(file, dict)
    with screen.connect() as client:
        stored = client.store_experiment(experiment_id, experiment, active=active)
    screen.report(stored.raw, f"stored with the arms {', '.join(_arms(stored))}")


@experiments.command("delete")
def delete_experiment(experiment_id: ExperimentId) -> None:
    """Delete an experiment; queries that name it are answered without one."""
    with screen.connect() as client:
        client.delete_experiment(experiment_id)
    screen.report({"experiment_id": experiment_id, "deleted": True}, "deleted")


def _report(profile: Profile) -> None:
    trial = _trial(profile)
    sentence = f"{profile.name}: version {profile.config_version} is active" + (f", trial {trial}" if trial else "")
    screen.report(profile.raw, sentence)


def _trial(profile: Profile) -> str:
    return "" if profile.trial_version is None else f"version {profile.trial_version} for {profile.trial_share:.0%}"


def _arms(experiment: Experiment) -> list[str]:
    arms = experiment.experiment.get("arms") or ()
    return [str(arm.get("name", "")) for arm in arms if isinstance(arm, Mapping)]
