"""A template around every sentence, inside the tokenizer itself: whoever loads the saved folder gets it without a word.

It is the post-processor of the tokenizers library, whose "special tokens" are then the word pieces of the template.
Nothing heavy is imported, so that a configuration can check its template.
"""

import copy
import dataclasses
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from selfguide.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from selfguide.encoders.encoder import Encoder

_SENTENCE = "{sentence}"
_PLACEHOLDERS = (_SENTENCE, "{mask}", "{cls}")


@final
@dataclass(frozen=True)
class Template:
    """Token ids that a tokenizer puts around every sentence, the closing token of its family included."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    mask_position: int | None
    """Where the mask token is in a row without padding: from the start, or, after the sentence, below 0 from the end.

    To be taken from here, not by a search: a sentence may hold the text of a mask token itself.
    """


def split_template(text: str) -> tuple[str, str]:
    """What is before and what is after the sentence; only the spaces in front of the second part are kept.

    Raises:
        InputError: when the text is no template.
    """
    found = re.findall(r"\{[^{}]*\}", text)
    unknown = [name for name in found if name not in _PLACEHOLDERS]
    if unknown:
        raise InputError(f"the template '{text}' holds {unknown[0]}; its placeholders are: {', '.join(_PLACEHOLDERS)}")
    if found.count(_SENTENCE) != 1:
        raise InputError(
            f"the template '{text}' holds {_SENTENCE} {found.count(_SENTENCE)} times; it must be there exactly once, "
            "where the sentence goes"
        )
    if found.count("{mask}") > 1:
        raise InputError(f"the template '{text}' holds {{mask}} {found.count('{mask}')} times; it may be there once")
    before, _, after = text.strip().partition(_SENTENCE)
    return before.rstrip(), after


def with_template(encoder: "Encoder", text: str) -> "Encoder":
    """The same model with a tokenizer of its own that reads every sentence inside a template.

    ``{sentence}`` stands for the sentence, ``{mask}`` for the mask token of the tokenizer and ``{cls}`` for the token that
    it puts first otherwise; the rest is text. The family's closing token follows, and nothing goes in front. Truncation
    cuts the sentence, never the template. A template that was in the tokenizer before gives way.

    Raises:
        InputError: when the text is no template, or this encoder has no place for it.
    """
    before, after = split_template(text)
    if getattr(encoder.tokenizer, "backend_tokenizer", None) is None:
        raise InputError(
            f"the tokenizer of '{encoder.name}' is written in Python, and a template needs one of the tokenizers library; "
            "use a model that comes with a tokenizer.json"
        )
    tokenizer = copy.deepcopy(encoder.tokenizer)
    parts = [_token_ids(tokenizer, _filled(part, tokenizer, encoder.name)) for part in (before, after)]
    if (parts[0] + parts[1]).count(tokenizer.mask_token_id) > 1:
        raise InputError(
            f"the template '{text}' holds the mask token {tokenizer.mask_token} more than once; write {{mask}} once, "
            "in the place that is read"
        )
    _surround(tokenizer, parts[0], [*parts[1], *_ids_of(_closing_token(tokenizer), tokenizer)])
    shortest = tokenizer.num_special_tokens_to_add() + 1
    if encoder.max_length < shortest:
        raise InputError(
            f"max length {encoder.max_length} leaves no room for a sentence: the template '{text}' takes {shortest - 1} "
            f"tokens; give at least {shortest} ('{encoder.name}' has positions for {encoder.positions}) or a shorter one"
        )
    return dataclasses.replace(encoder, tokenizer=tokenizer)


def without_template(encoder: "Encoder") -> "Encoder":
    """An encoder that reads plain sentences, as its family does: itself where there is no template in its tokenizer."""
    if template_of(encoder) is None:
        return encoder
    tokenizer = copy.deepcopy(encoder.tokenizer)
    first, last = _first_token(tokenizer), _closing_token(tokenizer)
    _surround(tokenizer, _ids_of(first, tokenizer), _ids_of(last, tokenizer))
    return dataclasses.replace(encoder, tokenizer=tokenizer)


def template_of(encoder: "Encoder") -> Template | None:
    """The template that is in the tokenizer; None where it adds no more than the first and the closing token."""
    tokenizer = encoder.tokenizer
    processor = getattr(getattr(tokenizer, "backend_tokenizer", None), "post_processor", None)
    state = json.loads(processor.__getstate__()) if processor is not None else {}
    if state.get("type") != "TemplateProcessing":
        return None
    parts: list[list[int]] = [[]]
    for piece in state["single"]:
        if "Sequence" in piece:
            parts.append([])
        else:
            parts[-1] += state["special_tokens"][piece["SpecialToken"]["id"]]["ids"]
    before, after = (tuple(part) for part in parts)
    plain = {tokenizer.cls_token_id, tokenizer.bos_token_id, tokenizer.sep_token_id, tokenizer.eos_token_id}
    return None if plain.issuperset(before + after) else Template(before, after, _position(before, after, tokenizer))


def template_text(encoder: "Encoder") -> str | None:
    """What the encoder reads in place of a sentence, such as ``[MASK] : " {sentence} " [SEP]``; None without template.

    Made from the token ids, so that spaces between words and punctuation may differ where the tokenizer does not see them.
    """
    template = template_of(encoder)
    if template is None:
        return None
    decoded = [str(encoder.tokenizer.decode(list(ids))) for ids in (template.before, template.after)]
    return " ".join(part.strip() for part in (decoded[0], _SENTENCE, decoded[1])).strip()


def _filled(part: str, tokenizer: "PreTrainedTokenizerBase", name: str) -> str:
    """The text with the tokenizer's own tokens in place of the placeholders."""
    for placeholder, kind, token in (
        ("{mask}", "mask token", tokenizer.mask_token),
        ("{cls}", "first token", _first_token(tokenizer)),
    ):
        if placeholder in part and token is None:
            raise InputError(
                f"the template asks for {placeholder}, and the tokenizer of '{name}' has no {kind}; "
                f"use a template without {placeholder}, or an encoder that was trained with one"
            )
        part = part.replace(placeholder, str(token))
    return part


def _token_ids(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, truncation=False, padding=False)["input_ids"]) if text else []


def _first_token(tokenizer: "PreTrainedTokenizerBase") -> str | None:
    token: str | None = tokenizer.cls_token or tokenizer.bos_token
    return token


def _closing_token(tokenizer: "PreTrainedTokenizerBase") -> str | None:
    token: str | None = tokenizer.sep_token or tokenizer.eos_token
    return token


def _ids_of(token: str | None, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    return [] if token is None else [int(tokenizer.convert_tokens_to_ids(token))]  # type: ignore[arg-type]


def _position(before: tuple[int, ...], after: tuple[int, ...], tokenizer: "PreTrainedTokenizerBase") -> int | None:
    mask = tokenizer.mask_token_id
    if mask in before:
        return before.index(mask)
    return after.index(mask) - len(after) if mask in after else None


def _surround(tokenizer: "PreTrainedTokenizerBase", before: list[int], after: list[int]) -> None:
    """Make these ids the post-processor; of a pair the second text follows, with the type id that the family gives it."""
    from tokenizers import Tokenizer

    backend: Any = tokenizer.backend_tokenizer
    backend.no_truncation()  # the limit of the last call
    second_type = backend.encode("a", "a").type_ids[-1]

    def piece(number: int, type_id: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": backend.id_to_token(number), "type_id": type_id}}

    single = [*map(piece, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(piece, after)]
    closing = [piece(number, second_type) for number in after[-1:]]
    tokens = {backend.id_to_token(number): number for number in (*before, *after)}
    processor = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": second_type}}, *closing],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]} for token, number in tokens.items()},
    }
    # by way of JSON: the constructor of TemplateProcessing reads "$" and ":" in a piece as signs of its own
    around_nothing = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {}, "unk_token": ""}}
    backend.post_processor = Tokenizer.from_str(json.dumps({**around_nothing, "post_processor": processor})).post_processor
