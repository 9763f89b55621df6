"""A plan as data, for programs."""

from typing import TYPE_CHECKING, Any

from warmset.plan.record import Cost, LowerTier, Plan
from warmset.report.launch import next_steps
from warmset.report.plan_traffic import traffic_payload

if TYPE_CHECKING:
    from warmset.launch import Launch


def payload(plan: Plan, launch: "Launch | None") -> dict[str, Any]:
    """`warmset.plan/1`: what does not apply or was not said is null, with the reason in `notes`."""
    demand, device, tier, fleet = plan.demand, plan.device, plan.tier, plan.fleet
    return {
        "schema": "warmset.plan/1",
        "model": plan.model,
        "engine": plan.engine,
        "backend": plan.backend,
        "deployment": {
            "tp": plan.tp,
            "pp": plan.pp,
            "dp": plan.dp,
            "dcp": plan.dcp,
            "ranks": plan.ranks,
            "kv_dtype": plan.kv_dtype,
            "bytes_per_token": plan.bytes_per_token,
            "block_tokens": plan.block_tokens,
            "max_model_len": plan.max_model_len,
            "accelerator": device.accelerator,
        },
        "decision": {
            "verdict": plan.decision.verdict,
            "reasons": plan.decision.reasons,
            "fixes": plan.decision.fixes,
        },
        "demand": {
            "sessions": demand.sessions,
            "context_tokens": demand.context_tokens,
            "shared_prefix_tokens": demand.shared_prefix_tokens,
            "bytes_per_session": demand.bytes_per_session,
            "warm_set_bytes": demand.warm_set_bytes,
            "warm_set_tokens": demand.warm_set_tokens,
            "device_bytes_per_session": demand.device_bytes_per_session,
            "device_bytes": demand.device_bytes,
        },
        "device": {
            "source": device.source,
            "kv_budget_bytes": {
                "low": device.low_bytes,
                "best": device.kv_budget_bytes,
                "high": device.high_bytes,
            }
            if device.estimated
            else device.kv_budget_bytes,
            "kv_budget_best_bytes": device.kv_budget_bytes,
            "usable_bytes": device.usable_bytes,
            "reserved_bytes": device.reserved_bytes,
            "per_rank_kv_budget_bytes": device.kv_budget_bytes // plan.ranks,
            "tokens": device.tokens,
            "sessions": device.sessions,
            "max_context_tokens": device.max_context_tokens,
            "terms": [{"name": name, "bytes": value} for name, value in device.terms],
        },
        "tier": {
            "backend": tier.backend,
            "inclusion": tier.inclusion,
            "why": tier.why,
            "headroom_ratio": tier.headroom_ratio,
            "warm_set_bytes": tier.warm_set_bytes,
            "inclusive_bytes": tier.inclusive_bytes,
            "exclusive_bytes": tier.exclusive_bytes,
            "recommended_bytes": tier.recommended_bytes,
            "per_rank_bytes": tier.per_rank_bytes,
            "allocated_bytes": tier.allocated_bytes,
            "chunk_bytes": tier.chunk_bytes,
            "chunk_tokens": tier.chunk_tokens,
            "host_memory_bytes": tier.host_memory_bytes,
            "dev_shm_bytes": tier.dev_shm_bytes,
            "sessions": tier.sessions,
            "bytes_per_warm_session": tier.bytes_per_warm_session,
            "conversions": tier.conversions,
        },
        "break_even": [
            {
                "tier": line.tier,
                "label": line.label,
                "load_bytes_per_second": line.load_bytes_per_second,
                "load_tokens_per_second": line.load_tokens_per_second,
                "prefill_tokens_per_second": line.prefill_tokens_per_second,
                "ratio": line.ratio,
                "note": line.note,
            }
            for line in plan.break_even
        ],
        "host": {
            "ram_bytes": plan.host.ram_bytes,
            "container_limit_bytes": plan.host.container_limit_bytes,
            "dev_shm_bytes": plan.host.dev_shm_bytes,
            "available_bytes": plan.host.available_bytes,
            "limited_by": plan.host.limited_by,
        },
        "fleet": {
            "replicas": fleet.replicas,
            "sessions": fleet.sessions,
            "warm_set_bytes": fleet.warm_set_bytes,
            "tier_bytes": fleet.tier_bytes,
            "host_memory_bytes": fleet.host_memory_bytes,
        },
        "lower_tier": _lower_tier(plan.lower_tier),
        "cost": _cost(plan.cost),
        "launch": {
            "command": None if launch is None else launch.command,
            "notes": () if launch is None else launch.notes,
        },
        "next_steps": next_steps(launch),
        "traffic": None if plan.traffic is None else traffic_payload(plan.traffic),
        "assumptions": plan.assumptions,
        "notes": (*plan.notes, *_unknown(plan, launch)),
    }


def _lower_tier(lower: LowerTier | None) -> dict[str, Any] | None:
    if lower is None:
        return None
    return {
        "storage": lower.storage,
        "kind": lower.kind,
        "recommended_bytes": lower.recommended_bytes,
        "staging_bytes": lower.staging_bytes,
    }


def _cost(cost: Cost | None) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "price_per_gib": cost.price_per_gib,
        "total": cost.total,
        "per_warm_session": cost.per_warm_session,
    }


def _unknown(plan: Plan, launch: "Launch | None") -> list[str]:
    """A reason for every null."""
    said = [f"break_even {line.label}: {line.note}" for line in plan.break_even if line.ratio is None]
    if plan.traffic is None:
        said.append(
            "traffic is null: the size follows from sessions; `--trace FILE` sizes by recorded traffic"
        )
    if launch is None:
        why = (
            f"verdict `{plan.decision.verdict}` leaves nothing to type"
            if plan.lower_tier is None
            else "host memory is too small to stage what a lower tier loads"
        )
        said.append(f"launch.command is null: {why}")
    if plan.lower_tier is None:
        said.append(f"lower_tier is null: verdict `{plan.decision.verdict}` has none")
    if plan.cost is None:
        said.append("cost is null: `--ram-price` was not given")
    not_given = {
        "deployment.max_model_len": ("--max-model-len", plan.max_model_len),
        "deployment.accelerator": ("--gpu", plan.device.accelerator),
        "host.ram_bytes": ("--host-ram", plan.host.ram_bytes),
        "host.container_limit_bytes": ("--container-limit", plan.host.container_limit_bytes),
        "host.dev_shm_bytes": ("--shm", plan.host.dev_shm_bytes),
        "host.available_bytes": ("--host-ram` or `--container-limit", plan.host.available_bytes),
        "host.limited_by": ("--host-ram` or `--container-limit", plan.host.limited_by),
    }
    said += [
        f"{key} is null: `{option}` was not given"
        for key, (option, value) in not_given.items()
        if value is None
    ]
    if plan.cost is not None and plan.cost.per_warm_session is None:
        said.append("cost.per_warm_session is null: there is no tier to pay for")
    return said
