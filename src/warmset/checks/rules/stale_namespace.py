"""One directory used by engines whose blocks differ."""

from collections.abc import Iterator

from warmset.checks.case import Case, make_case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.checks.text import Place, Word

_FLAGS = ("--hf-overrides", "--rope-scaling", "--rope-theta", "--quantization")


def check(case: Case) -> Iterator[Answer]:
    """Launches with the same root_dir as an earlier one, in anything that the directory's name does not cover."""
    mine = _roots(case)
    if not mine:
        return
    for other in case.inputs.twins(case.launch):
        if other is case.launch:
            return
        earlier = make_case(other, case.inputs, case.facts)
        for root in mine.keys() & _roots(earlier).keys():
            yield from _compare(case, earlier, root, mine[root].find(root))


def _roots(case: Case) -> dict[str, Word]:
    native = case.native
    tiers = native.tiers if native is not None else []
    roots = [tier["root_dir"] for tier in tiers if isinstance(tier.get("root_dir"), str)]
    return {root.rstrip("/"): native.word for root in roots} if native is not None else {}


def _compare(case: Case, earlier: Case, root: str, at: Place) -> Iterator[Answer]:
    first, second = earlier.launch, case.launch
    if first.model is None or second.model is None or first.model.value != second.model.value:
        return
    for name in _FLAGS:
        a, b = first.flag(name), second.flag(name)
        if (a.value.value if a and a.value else None) != (b.value.value if b and b.value else None):
            yield Hit(
                f"`{root[:80]}` is also used with another `{name}`: the directory's name does not cover it, and "
                f"blocks "
                "computed under the other are loaded as if they were these",
                at,
                "error",
                "another root_dir for each model configuration",
            )
    if first.tensor_parallel != second.tensor_parallel:
        severity: Severity = "error" if case.between("0.22.0", "0.29.0") else "warning"
        yield Hit(
            f"`{root[:80]}` is also used with tensor parallel {first.tensor_parallel} (here "
            f"{second.tensor_parallel}): on "
            "affected versions files of one are read by the other",
            at,
            severity,
            f'"root_dir": "{root}/tp{second.tensor_parallel}"',
        )


RULE = Rule(
    "stale-namespace",
    "error",
    "One directory for engines whose blocks are not the same.",
    "The fs tier separates its files by model and layout, and the digest leaves things out: RoPE scaling and other "
    "overrides of the model's configuration, and on affected versions the tensor-parallel size. A block of the other "
    "configuration is loaded without an error and the output is silently different.",
    "two launches with root_dir /kv, one of them with --hf-overrides '{\"rope_scaling\": …}'",
    "root_dir /kv/rope1 and /kv/rope2",
    "vLLM 0.22 and newer",
    "vLLM issue 56311, PR 55191",
    check,
)
