"""Checks that the specs of published families share: sizes and shares that can be true."""

from collections.abc import Mapping, Sequence

from regard.errors import SettingError

LARGEST: Mapping[str, int] = {
    "d_model": 1 << 16,
    "n_heads": 1 << 10,
    "d_hidden": 1 << 18,
    "n_layers": 1000,
    "n_encoder_layers": 1000,
    "n_decoder_layers": 1000,
    "max_len": 1 << 24,
}
"""Beyond these a size is a mistake, or a file that means harm."""


def check_sizes(spec: object, names: Sequence[str]) -> None:
    """Every named size lies between 1 and the largest."""
    for name in names:
        value = getattr(spec, name)
        if not 1 <= value <= LARGEST[name]:
            raise SettingError(
                f"model.{name} must lie between 1 and {LARGEST[name]:,}, got {value}."
            )


def check_shares(spec: object, names: Sequence[str]) -> None:
    """Every named share lies in [0, 1)."""
    for name in names:
        value = getattr(spec, name)
        if not 0.0 <= value < 1.0:
            raise SettingError(f"model.{name} must lie in [0, 1), got {value}.")


def check_one_vocabulary(kind: str, n_source_tokens: int, n_target_tokens: int) -> None:
    """What is read and what is said have one vocabulary."""
    if n_source_tokens != n_target_tokens:
        raise SettingError(
            f"{kind}: what is read and what is said need one vocabulary, got {n_source_tokens} "
            f"source and {n_target_tokens} target tokens. Take tokens.is_joint = true."
        )
