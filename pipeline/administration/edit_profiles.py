"""Read and change profiles and experiments; only working ones are stored."""

from collections.abc import Mapping
from typing import Any

import structlog

from pipeline.administration.call_store import call_store
from pipeline.database.unit_of_work import reading, retry_conflicts, unit_of_work
from pipeline.query.built_in_profiles import DEFAULT_PROFILE
from pipeline.query.configuration import Configuration, Experiment, read_experiment
from pipeline.query.plan import Plan, PlanFlaw, overlaid
from pipeline.query.profile_store import Experiments, Profiles
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.retrieval.build_plan import plan_of

log = structlog.get_logger(__name__)


list_profiles = call_store(Profiles, Profiles.heads, reading=True)
list_versions = call_store(Profiles, Profiles.versions, reading=True)
remove_profile = call_store(Profiles, Profiles.remove)
list_experiments = call_store(Experiments, Experiments.all, reading=True)
remove_experiment = call_store(Experiments, Experiments.remove)


def load_configuration(tenant_id: TenantId, use: Resources) -> Configuration:
    """Return the tenant's present configuration. Raises StoreUnavailable."""
    with reading(use.mysql) as connection:
        profiles = Profiles(connection, tenant_id).heads()
        experiments = Experiments(connection, tenant_id).all()
    return Configuration(
        profiles=profiles,
        experiments={name: read_experiment(config) for name, (config, active) in experiments.items() if active},
    )


@retry_conflicts()
def store_profile(
    tenant_id: TenantId, name: str, config: Mapping[str, Any], *, note: str, by: str, share: float, use: Resources
) -> tuple[int, Plan]:
    """Add a version for a ``share`` of the queries, 0 for none yet; return number and plan. Raises PlanFlaw."""
    plan = _plan_of_profile(config, use)
    with unit_of_work(use.mysql) as work:
        profiles = Profiles(work.connection, tenant_id)
        version = profiles.add(name, config, note=note, created_by=by)
        if share > 0:
            profiles.point(name, version, share=share)
    log.info("profile_stored", tenant_id=tenant_id, profile=name, config_version=version, share=share)
    return version, plan


@retry_conflicts()
def activate(tenant_id: TenantId, name: str, version: int, *, share: float, use: Resources) -> bool:
    """Activate another version for all queries or a ``share`` of them. False if there is no such version."""
    with unit_of_work(use.mysql) as work:
        exists = Profiles(work.connection, tenant_id).point(name, version, share=share)
    if exists:
        log.info("profile_activated", tenant_id=tenant_id, profile=name, config_version=version, share=share)
    return exists


@retry_conflicts()
def roll_back(tenant_id: TenantId, name: str, use: Resources) -> int | None:
    """End a trial; without one, return to the version active before. Return the version that is active now, or None."""
    with unit_of_work(use.mysql) as work:
        profiles = Profiles(work.connection, tenant_id)
        head = profiles.heads().get(name)
        if head is None:
            return None
        version = head.active.version if head.trial is not None else head.previous_version
        if version is None or not profiles.point(name, version, back=True):
            return None
    log.warning("profile_rolled_back", tenant_id=tenant_id, profile=name, config_version=version)
    return version


@retry_conflicts()
def store_experiment(
    tenant_id: TenantId,
    experiment_id: str,
    experiment: Experiment,
    config: Mapping[str, Any],
    *,
    active: bool,
    use: Resources,
) -> None:
    """Store an experiment. Raises PlanFlaw for an arm without a valid plan, with a pointer into the experiment."""
    check_arms(experiment, load_configuration(tenant_id, use), use)
    with unit_of_work(use.mysql) as work:
        Experiments(work.connection, tenant_id).put(experiment_id, config, active=active)
    log.info("experiment_stored", tenant_id=tenant_id, experiment_id=experiment_id, active=active)


def check_arms(experiment: Experiment, configuration: Configuration, use: Resources) -> None:
    """Raise PlanFlaw unless every arm makes a valid plan over its most likely profile."""
    for index, arm in enumerate(experiment.arms):
        name = arm.profile or DEFAULT_PROFILE
        if name not in configuration.profiles:
            raise PlanFlaw([(f"/arms/{index}/profile", "is not the name of a profile")])
        try:
            _plan_of_profile(overlaid(configuration.profiles[name].active.config, arm.overrides), use)
        except PlanFlaw as flaw:
            raise PlanFlaw([(f"/arms/{index}/overrides{pointer}", detail) for pointer, detail in flaw.flaws]) from None


def _plan_of_profile(config: Mapping[str, Any], use: Resources) -> Plan:
    """Return the plan of a profile. Raises PlanFlaw, also for groups: clients of other dialects expect ``top_k`` hits."""
    plan = plan_of(use.settings, config, {})
    if plan.retrieve.selection.group_by is not None:
        raise PlanFlaw([("/retrieve/selection/group_by", "belongs to a query, and to no profile")])
    return plan
