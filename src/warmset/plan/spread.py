"""How a number of devices is spread over a model."""

from warmset.errors import InputError
from warmset.geometry import Geometry


def check_spread(geometry: Geometry, gpus: int | None, given_tp: int | None, pp: int, dp: int) -> None:
    """Raise InputError where `gpus` devices, less `pp` and `dp`, are no TP ranks that the model can have."""
    if gpus is None or given_tp is not None or min(gpus, pp, dp) < 1 or gpus % (pp * dp):
        return
    tp = gpus // (pp * dp)
    refused = _refusal(geometry, tp, pp)
    if refused is None or (most := next_smaller(geometry, tp, pp)) is None:
        return
    how = f"--tp {most}" + (f" --pp {pp}" if pp > 1 else "") + f" --dp {dp * tp // most}"
    raise InputError(
        f"`--gpus {gpus}` are too many for one replica: {refused.message}",
        hint=f"use `{how}`: that many replicas, each with a tier of its own",
    )


def next_smaller(geometry: Geometry, tp: int, pp: int) -> int | None:
    """The largest divisor of `tp` below it that the model can have."""
    able = (n for n in range(tp // 2, 0, -1) if tp % n == 0 and _refusal(geometry, n, pp) is None)
    return next(able, None)


def next_larger(geometry: Geometry, tp: int, pp: int) -> int | None:
    """The smallest multiple of `tp` above it, up to sixteen times, that the model can have."""
    return next((n for n in range(2 * tp, 16 * tp + 1, tp) if _refusal(geometry, n, pp) is None), None)


def _refusal(geometry: Geometry, tp: int, pp: int) -> InputError | None:
    try:
        geometry.footprint(tp=tp, pp=pp)
    except InputError as error:
        return error
    return None
