"""Ways to write the same base64: those that Go's decoder reads, and so cosign, and those that it does not."""

from __future__ import annotations

from collections.abc import Callable

from rig.signatures.forging import Recipe

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SIGNATURE = "dev.cosignproject.cosign/signature"
Change = Callable[[str], str]


def spare_bits(text: str) -> str:
    """The last character before the padding has bits that no byte has."""
    stripped = text.rstrip("=")
    if stripped == text:
        raise ValueError("there is no padding, so that no bits are left over")
    spoiled = _ALPHABET[_ALPHABET.index(stripped[-1]) + 1]
    return stripped[:-1] + spoiled + text[len(stripped) :]


SPELLINGS: dict[str, Change] = {
    "with a line's end": lambda text: f"{text}\n",
    "with the line's end of another system": lambda text: f"{text}\r\n",
    "in lines": lambda text: "\n".join(text[at : at + 20] for at in range(0, len(text), 20)),
    "with a line's end within its padding": lambda text: f"{text[:-1]}\r\n{text[-1]}",
    "with bits to spare": spare_bits,
}
MISSPELLINGS: dict[str, Change] = {
    "with a blank": lambda text: f"{text} ",
    "with a tab": lambda text: f"\t{text}",
    "with another space": lambda text: f"{text}\x0b",
    "without its padding": lambda text: text.rstrip("="),
    "with padding to spare": lambda text: f"{text}=",
    "with more after its padding": lambda text: f"{text}{text}",
    "for URLs": lambda text: f"-_{text[2:]}",
    "with a letter of elsewhere": lambda text: f"\N{FULLWIDTH LATIN CAPITAL LETTER A}{text[1:]}",
    "with nothing": lambda _: "",
    "with lines' ends only": lambda _: "\n\n",
}


def respelled(change: Change) -> Recipe:
    """A layer, signed by key, whose signature is written in another way."""
    return Recipe(
        leaf=None,
        entry=None,
        simple=True,
        key="rsa",  # signatures of 256 bytes, whose base64 ends in padding
        bundle=lambda annotations: annotations.update({_SIGNATURE: change(annotations[_SIGNATURE])}),
    )
