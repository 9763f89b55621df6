"""JSON that does not parse."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Edit, Hit, Rule
from warmset.checks.kv import KV

_FLAGS = (
    "--kv-events-config",
    "--speculative-config",
    "--hicache-storage-backend-extra-config",
    "--l2-adapter",
)
_MAX_REPAIR = 4_000
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_OUTSIDE = r"(?<=[:,\[\s])(?:{})(?=\s*[,}}\]])"


def check(case: Case) -> Iterator[Answer]:
    """The connector configuration, and other JSON that decides about KV."""
    kv = case.kv
    if kv.error is not None and kv.error_at is not None:
        fix = '--kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both", …}\''
        yield Hit(
            f"`--kv-transfer-config` is not valid JSON: {kv.error}",
            kv.error_at,
            fix=_corrected(kv) or fix,
            edit=_edit(kv),
        )
    import json

    for name in _FLAGS:
        for flag in case.launch.flags.get(name, ()):
            if flag.value is None or not flag.value.known or not flag.value.value.lstrip().startswith("{"):
                continue
            try:
                json.loads(flag.value.value)
            except (ValueError, RecursionError) as error:
                yield Hit(f"`{name}` is not valid JSON: {str(error)[:120]}", flag.value)


def _corrected(kv: KV) -> str | None:
    """The flag with what was probably meant; None where no repair makes a JSON object of it."""
    if kv.word is None or len(kv.word.value) > _MAX_REPAIR:
        return None
    text = kv.word.value.strip()
    for repair in (_commas, _braces, _words, _ends):
        text = repair(text)
        if _is_object(text) and "'" not in text:
            return f"--kv-transfer-config '{text}'"
    return None


def _commas(text: str) -> str:
    return re.sub(r",(\s*[}\]])", r"\1", text)


def _braces(text: str) -> str:
    return "{" + text[1:-1] + "}" if text[:1] == "(" and text[-1:] == ")" else text


def _words(text: str) -> str:
    """Python's words and quotes as JSON's, and quotes around names that have lost them."""
    if '"' not in text:
        text = text.replace("'", '"')
    text = re.sub(_OUTSIDE.format("True|False|None"), lambda m: _PYTHON[m[0]], text)
    return text if '"' in text else re.sub(r"(?!(?:true|false|null)\b)[A-Za-z_/][\w./-]*", r'"\g<0>"', text)


def _ends(text: str) -> str:
    return text + "}" * max(0, text.count("{") - text.count("}"))


def _is_object(text: str) -> bool:
    import json

    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _edit(kv: KV) -> Edit | None:
    """A trailing comma may be removed with certainty, when it is the only fault."""
    import json

    if kv.word is None or kv.error is None or "comma" not in kv.error:
        return None
    commas = list(re.finditer(r",(?=\s*[}\]])", kv.word.value))
    try:
        json.loads(re.sub(r",(\s*[}\]])", r"\1", kv.word.value))
    except ValueError:
        return None
    body = kv.word.body
    if len(commas) != 1 or body.value != kv.word.value:
        return None
    at = body.offset(commas[0].start())
    if body.source.text[at : at + 1] != "," or body.source.name.startswith("<std"):
        return None
    return Edit(body.source.name, at, at + 1, "")


RULE = Rule(
    "connector-json",
    "error",
    "The connector configuration is not valid JSON.",
    "A trailing comma, parentheses for braces, single quotes or quotes that the shell removed: the server stops "
    "before it "
    "loads the model. Put the JSON in single quotes on a command line.",
    '--kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both",}\'',
    '--kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
    "all versions",
    "LMCache issue 2755; vLLM issue 42625",
    check,
)
