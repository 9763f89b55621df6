"""Which reader understands which model type. The list is explicit: a type that is not here is not guessed."""

from collections.abc import Callable

from warmset.errors import InputError
from warmset.geometry.config import Config
from warmset.geometry.readers import (
    chunked,
    compressed,
    encdec,
    gemma,
    hybrid,
    latent,
    linear,
    minimax,
    nas,
    plain,
    windowed,
)
from warmset.geometry.readers.parts import Parts
from warmset.geometry.readers.strange import check_unknown

Reader = Callable[[Config], Parts]

PLAIN = frozenset(
    """
    aquila arcee arctic aria_text baichuan bailing_moe bailing_moe_v2 bitnet bloom chameleon chatglm
    codegen cohere deepseek diffllama dots1 dots_ocr ernie4_5 ernie4_5_moe ernie4_5_moe_vl
    ernie4_5_vl_moe_text exaone flex_olmo gemma glm glm4 glm4_moe glm4v_moe_text glm4v_text
    glm_ocr_text gpt2 gpt_neox gptj granite granitemoe granitemoeshared helium hunyuan
    hunyuan_v1_dense hunyuan_v1_moe hy_v3 hyperclovax internlm internlm2 jais jais2 mimo minicpm
    minicpmo minicpmv minimax_m2 mixtral molmo nanbeige nemotron olmo olmo2 olmoe opt orion
    persimmon phi phi3 phi3_v phi3small phi4_multimodal phi4mm phimoe qwen qwen2 qwen2_5_omni_text
    qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_moe qwen3_omni_moe_text
    qwen3_vl_moe_text qwen3_vl_text sarvam_moe seed_oss solar solar_open stablelm stablelm_epoch
    starcoder2 step1 step3_text telechat telechat2 teleflm xverse yi
    """.split()  # noqa: SIM905  # one name per word reads better than one per line
)

# Models whose layers follow `layer_types`, or mix windows by a pattern: vLLM's Llama reads the list too.
WINDOWED = frozenset(
    """
    afmoe apertus cohere2 cohere2_moe cwm exaone4 exaone4_5_text exaone_moe gemma2 gemma3
    gemma3_text gpt_oss granite_swa granitemoe_swa internlm3 iquestcoder laguna llama mellum
    ministral ministral3 mistral olmo3 rnj1 smollm3 telechat3 vaultgemma
    """.split()  # noqa: SIM905  # one name per word reads better than one per line
)

ENCODERS = frozenset(
    """
    albert bert camembert clip clip_text_model convbert deberta deberta-v2 distilbert electra ernie
    esm flava funnel gte layoutlm layoutlmv3 longformer luke megatron-bert mobilebert modernbert
    mpnet new nezha nomic_bert openai_privacy_filter rembert roberta roberta-prelayernorm roformer
    siglip siglip2 siglip_text_model squeezebert timm_wrapper vit xlm xlm-roberta xlm-roberta-xl
    xlnet xmod
    """.split()  # noqa: SIM905  # one name per word reads better than one per line
)

OTHERS: dict[str, Reader] = {
    "axk1": latent.read,
    "bailing_hybrid": linear.read_bailing,
    "bamba": hybrid.read_granite,
    "dbrx": plain.read_dbrx,
    "deepseek_v2": latent.read,
    "deepseek_v3": latent.read,
    "deepseek_v32": latent.read,
    "deepseek_v4": compressed.read,
    "falcon": plain.read_multi_query,
    "falcon_h1": hybrid.read_falcon_h1,
    "falcon_mamba": hybrid.read_mamba1,
    "gemma3n": gemma.read,
    "gemma3n_text": gemma.read,
    "gemma4": gemma.read,
    "gemma4_text": gemma.read,
    "gemma4_unified_text": gemma.read,
    "glm4_moe_lite": latent.read,
    "glm_moe_dsa": latent.read,
    "gpt_bigcode": plain.read_multi_query,
    "granitemoehybrid": hybrid.read_granite,
    "jamba": hybrid.read_jamba,
    "kimi_k2": latent.read,
    "kimi_linear": linear.read_kda,
    "lfm2": linear.read_short_conv,
    "lfm2_moe": linear.read_short_conv,
    "llama4": chunked.read,
    "llama4_text": chunked.read,
    "longcat_flash": latent.read_doubled,
    "mamba": hybrid.read_mamba1,
    "mamba2": hybrid.read_mamba2,
    "mimo_v2": windowed.read_two_head_sizes,
    "mimo_v2_flash": windowed.read_two_head_sizes,
    "minicpm3": plain.read_expanded_latent,
    "minimax": minimax.read_lightning,
    "minimax_m1": minimax.read_lightning,
    "minimax_m3_vl": minimax.read_sparse,
    "minimax_m3_vl_text": minimax.read_sparse,
    "minimax_text_01": minimax.read_lightning,
    "mllama": encdec.read_mllama,
    "mllama_text_model": encdec.read_mllama,
    "mpt": plain.read_dbrx,
    "nemotron-nas": nas.read,
    "nemotron_h": hybrid.read_nemotron,
    "olmo_hybrid": linear.read_gated_delta,
    "pangu_ultra_moe": latent.read,
    "qwen3_5_moe_text": linear.read_gated_delta,
    "qwen3_5_text": linear.read_gated_delta,
    "qwen3_next": linear.read_gated_delta,
    "refinedweb": plain.read_multi_query,
    "refinedwebmodel": plain.read_multi_query,
    "sarvam_mla": latent.read,
    "step3p5": windowed.read_step,
    "whisper": encdec.read_whisper,
    "zamba2": hybrid.read_zamba2,
}

READERS: dict[str, Reader] = {
    **dict.fromkeys(PLAIN, plain.read),
    **dict.fromkeys(WINDOWED, windowed.read),
    **dict.fromkeys(ENCODERS, plain.read_bidirectional),
    **OTHERS,
}

# Old checkpoints name an architecture but no usable model type.
ARCHITECTURES: dict[str, Reader] = {
    "DeciLMForCausalLM": nas.read,
    "DeepseekV2ForCausalLM": latent.read,
    "DeepseekV3ForCausalLM": latent.read,
    "DeepseekV32ForCausalLM": latent.read,
    "GptOssForCausalLM": windowed.read,
    "LlamaForCausalLM": plain.read,
    "MistralForCausalLM": plain.read,
    "MixtralForCausalLM": plain.read,
    "Qwen2ForCausalLM": plain.read,
    "Qwen3ForCausalLM": plain.read,
}


def read_parts(config: Config) -> Parts:
    """The caches of a model, by the reader of its type.

    A type that is not known is read like a plain model if nothing in its configuration speaks against it, with
    a note; otherwise InputError names the key that does.
    """
    model_type = config.model_type.lower()
    if _looks_both_ways(config):
        return plain.read_bidirectional(config)
    reader = READERS.get(model_type)
    if reader is latent.read and _no_latent(config):
        reader = plain.read
    if reader is None and not model_type:
        reader = ARCHITECTURES.get(config.architecture)
    if reader is not None:
        _check_encoder_decoder(config, reader)
        return reader(config)
    check_unknown(config)
    parts = plain.read(config)
    label = f"`{config.model_type}`" if model_type else "the model's type"
    note = f"warmset does not know {label}: it is read as plain attention on every layer"
    return Parts(
        layers=parts.layers,
        caches=parts.caches,
        attention_heads=parts.attention_heads,
        notes=(*parts.notes, note),
    )


def _no_latent(config: Config) -> bool:
    """DeepSeek V2 checkpoints without MLA: no latent, or no split of the heads into parts."""
    if config.raw("use_mla") is False:
        return True
    absent = "kv_lora_rank" in config.text and config.text["kv_lora_rank"] is None
    return absent or (config.raw("qk_nope_head_dim") == 0 and config.raw("qk_rope_head_dim") == 0)


def _looks_both_ways(config: Config) -> bool:
    """Embedding models that turned a decoder into an encoder."""
    if config.raw("is_causal") is False or config.top.get("is_causal") is False:
        return True
    return config.model_type == "gemma3_text" and config.raw("use_bidirectional_attention") is True


def _check_encoder_decoder(config: Config, reader: Reader) -> None:
    if config.top.get("is_encoder_decoder") is True and reader is not encdec.read_whisper:
        raise InputError(
            f"`is_encoder_decoder` is set, and warmset does not know the caches of `{config.model_type}`",
            hint="vLLM runs no encoder-decoder language models but Whisper",
        )
