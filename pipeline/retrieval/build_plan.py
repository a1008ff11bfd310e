"""Build the plan of one query from settings, profile and request."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pipeline.channels.channel import installed_channels
from pipeline.errors import Misconfigured
from pipeline.query.channel_options import require_options
from pipeline.query.plan import Plan, PlanFlaw, overlaid, plan_as_json, read_plan
from pipeline.retrieval.fuse import installed_fusions
from pipeline.settings import Settings

_POOL = 100  # candidates of each channel; `pool` of a channel in a profile replaces it
# For channels without a configured weight; API passages weigh as little as curated answers.
_USUAL_WEIGHTS = {"keyword": 1.0, "semantic": 1.0}


def plan_of(use: Settings, profile: Mapping[str, Any], request: Mapping[str, Any], *, namespaces: int = 1) -> Plan:
    """Return the settings' plan overlaid by the profile's parts and by the request's; the hits of several
    ``namespaces`` are reranked. Raises PlanFlaw, whose pointers are those of the request."""
    over = overlaid(profile, request)
    retrieve = _object(over.get("retrieve"))
    channels = _object(retrieve.get("channels"))
    installed_channels()  # registers their names
    base = settings_layer(use, strategy=_object(retrieve.get("fusion")).get("strategy"), also=channels)
    plan = read_plan(overlaid(base, _implied(over, channels, namespaces=namespaces)), over)
    require_options(plan)
    if not plan.channels:
        raise PlanFlaw([("/retrieve/channels", "leaves no channel with a weight above 0")])
    provider = request.get("rerank", {}).get("provider")
    if provider not in (None, "auto") and use.reranker_for(plan.rerank.provider) != provider:
        raise PlanFlaw([("/rerank/provider", f"is {provider}, which is not configured here")])
    fusion = plan.retrieve.fusion
    if fusion.strategy == "custom" and fusion.plugin is None:
        raise PlanFlaw(
            [("/retrieve/fusion/strategy", "is custom, but names no plugin, and not exactly one is installed here")]
        )
    if fusion.strategy == "custom" and fusion.plugin not in installed_fusions():
        installed = ", ".join(installed_fusions()) or "none"
        raise PlanFlaw([("/retrieve/fusion/plugin", f"is no fusion that is installed here; installed: {installed}")])
    return plan if "top_n" in over.get("rerank", {}) else _limit_near_tie_rerank(plan, use)


def _limit_near_tie_rerank(plan: Plan, use: Settings) -> Plan:
    """Unless the number of reranked hits is configured, let the local reranker, which only swaps near-ties, read the
    returned hits alone (docs/reranking.md)."""
    rerank = plan.rerank
    near_ties = use.reranker_for(rerank.provider) == "local" and rerank.weight is None and rerank.threshold is None
    if not near_ties or rerank.top_n <= plan.top_k:
        return plan
    return replace(plan, rerank=replace(rerank, top_n=plan.top_k))


def check_fusion(use: Settings) -> None:
    """Raise Misconfigured if the settings choose a fusion of their own and not exactly one is installed."""
    installed = installed_fusions()
    if use.recall_merge_strategy == "custom" and len(installed) != 1:
        raise Misconfigured(
            "CHORDWISE_RECALL_MERGE_STRATEGY is custom, which needs exactly one installed fusion; installed: "
            f"{', '.join(installed) or 'none'}; to use one of several, name it in a profile (retrieve.fusion.plugin)"
        )


def replanned(plan: Plan, changed: Mapping[str, Any], use: Settings) -> Plan:
    """Return a plan with some parts changed. Raises PlanFlaw."""
    return plan_of(use, plan_as_json(plan), changed)


def settings_layer(use: Settings, *, strategy: str | None = None, also: Iterable[str] = ()) -> dict[str, Any]:
    """Return the installation's retrieval settings in the form of a profile. Ranks need no weights: under ``rrf`` all
    channels count alike by default. ``also``: channels that are asked beside the usual ones."""
    chosen = strategy or use.recall_merge_strategy
    channels: dict[str, dict[str, Any]] = {
        name: {
            "weight": 1.0 if chosen == "rrf" else use.recall_source_weights.get(name, _USUAL_WEIGHTS.get(name, 0.1)),
            "timeout_ms": use.recall_timeout_ms,
            "retry": use.recall_retry,
            "pool": _POOL,
        }
        for name in dict.fromkeys((*use.recall_sources, *also))
    }
    has_default_weights = use.recall_source_weights == type(use).model_fields["recall_source_weights"].default
    return {
        "top_k": use.retrieval_topk,
        "deadline_ms": use.query_deadline_ms,
        "lane": use.query_lane,
        "retrieve": {
            "channels": channels,
            "fusion": {
                "strategy": use.recall_merge_strategy,
                "k": use.rrf_k,
                # The default weights are chosen with the gate; weights of the installation are used as they are.
                "reading_gate": has_default_weights,
                "query_weights": has_default_weights,
                **({"plugin": next(iter(fusions))} if len(fusions := installed_fusions()) == 1 else {}),
            },
        },
        # The local reranker alone changes too little to be worth its time: docs/reranking.md.
        "rerank": {"enabled": use.reranker_for("auto") != "local"},
        "privacy": {"kinds": [kind.value for kind in use.mask_kinds]},
        "fallback": {"enabled": use.recall_fallback_enabled, "threshold": use.recall_degrade_threshold},
    }


def _implied(over: Mapping[str, Any], channels: Mapping[str, Any], *, namespaces: int) -> dict[str, Any]:
    """Return the values implied by profile and request: explicit weights are used as they are, without the reading gate
    and the query's own; an option of reranking enables reranking, and so do several namespaces."""
    implied: dict[str, Any] = {}
    if any("weight" in _object(channel) for channel in channels.values()):
        implied["retrieve"] = {"fusion": {"reading_gate": False, "query_weights": False}}
    if over.get("rerank") or namespaces > 1:
        implied["rerank"] = {"enabled": True}
    return implied


def _object(value: Any) -> Mapping[str, Any]:
    """Return an object of the plan before its validation, which reports a value that is none."""
    return value if isinstance(value, Mapping) else {}
