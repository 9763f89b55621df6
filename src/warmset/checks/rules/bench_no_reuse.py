"""Benchmarks whose prompts share nothing."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.units import format_counted

_ONE_SHOT = {
    "burstgpt": "one-shot prompts",
    "sonnet": "short prompts",
    "random": "random prompts",
    "sharegpt": "first turns only",
}


def check(case: Case) -> Iterator[Answer]:
    """The data set, and prefixes that are not used twice."""
    if case.launch.server != "bench":
        return
    dataset = case.launch.flag("--dataset-name", "--dataset")
    if dataset is not None and dataset.value is not None:
        name = dataset.value.value.rsplit("/", 1)[-1].lower()
        kind = next((k for k in _ONE_SHOT if name.startswith(k)), None)
        prefix = case.launch.number("--random-prefix-len", "--sonnet-prefix-len") or 0
        if kind is not None and not (kind == "random" and prefix > 0):
            yield Hit(
                f"`{kind}` has {_ONE_SHOT[kind]} without a shared prefix: expect no external hits whatever the tier",
                dataset.value,
                "warning" if kind == "random" else "note",
                "--dataset-name prefix_repetition with few prefixes, or a recorded trace",
            )
    prefixes = case.launch.number("--prefix-repetition-num-prefixes", "--num-prefixes")
    prompts = case.launch.number("--num-prompts")
    flag = case.launch.flag("--prefix-repetition-num-prefixes", "--num-prefixes")
    if prefixes and prompts and flag is not None and prompts <= prefixes:
        yield Hit(
            f"{format_counted(prompts, 'prompt')} over {format_counted(prefixes, 'prefix')}: no prefix comes back, so "
            "no tier can hit",
            flag.value or flag.word,
            "warning",
            f"{flag.name} {max(1, int(prompts) // 8)}",
        )


RULE = Rule(
    "bench-no-reuse",
    "note",
    "A benchmark that cannot hit.",
    "A tier serves prefixes that come back after the device dropped them. Data sets of one-shot or random "
    "prompts have none, "
    "and more prefixes than prompts gives each of them once: the result says nothing about the tier.",
    "vllm bench serve --dataset-name random",
    "vllm bench serve --dataset-name prefix_repetition --prefix-repetition-num-prefixes 8 --num-prompts 400",
    "all versions",
    "LMCache issues 955, 1061; vllm-ascend issue 9261",
    check,
)
