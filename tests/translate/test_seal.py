"""Sealed values: only we can open them, nobody can change them, keys can be rotated."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from trilogue.errors import SealError, UpstreamProtocolError
from trilogue.model import SEAL_PREFIX, Opaque, OpaqueKind, Protocol, Provenance
from trilogue.translate.reasoning.seal import Sealer

OLD, NEW = b"o" * 32, b"n" * 32
ORIGIN = Provenance(protocol=Protocol.MESSAGES, provider="anthropic", model="claude-sonnet-5", account="a")
VALUE = Opaque(kind=OpaqueKind.SIGNATURE, value="EqQBCkYIBBgCKkB/+=", item_id="rs_1")


def test_opens_what_it_sealed() -> None:
    """Value, kind, item id and provenance come back byte for byte."""
    sealer = Sealer([OLD])
    sealed = sealer.seal(VALUE, ORIGIN)
    assert sealed.startswith(SEAL_PREFIX)
    opened = sealer.open(sealed)
    assert (opened.opaque, opened.origin) == (VALUE, ORIGIN)


def test_opens_what_earlier_versions_sealed() -> None:
    """Histories live longer than gateways. This one says nothing about the parts of a summary."""
    sealed = (
        "trl1.LPAB1xcG6XFSlIA4uL-r27u0bJuZYzQcpmybCnPix0Nd5XokTGpcyriHjh6jcDkBkhiLyWYsAeCn5zfkNyaerD-LBM0y3IKlIcku0q"
        "gBZmqniYeSMhmDabdO3Q_SxceQkJoctr5ROXa6lAFcMoT6fceE"
    )
    opened = Sealer([OLD]).open(sealed)
    assert (opened.opaque, opened.origin, opened.parts) == (VALUE, ORIGIN, ())


def test_shows_nothing() -> None:
    """A client sees neither the value nor where it came from."""
    sealed = Sealer([OLD]).seal(VALUE, ORIGIN)
    assert "anthropic" not in sealed
    assert VALUE.value not in sealed


def test_same_value_is_sealed_alike() -> None:
    """Prompt caches depend on it; another value or another origin gives another seal."""
    sealer = Sealer([OLD])
    assert sealer.seal(VALUE, ORIGIN) == sealer.seal(VALUE, ORIGIN)
    assert sealer.seal(VALUE, ORIGIN) != sealer.seal(VALUE, Provenance(protocol=Protocol.MESSAGES))


def test_old_keys_still_open_after_rotation() -> None:
    """The new key goes in front; what the old one sealed is not lost."""
    sealed = Sealer([OLD]).seal(VALUE, ORIGIN)
    rotated = Sealer([NEW, OLD])
    assert rotated.open(sealed).opaque == VALUE
    assert rotated.seal(VALUE, ORIGIN) != sealed


def test_unknown_key_is_refused() -> None:
    """After the old key is gone its values are foreign."""
    with pytest.raises(SealError, match="unknown key"):
        Sealer([NEW]).open(Sealer([OLD]).seal(VALUE, ORIGIN))


def test_every_changed_character_is_noticed() -> None:
    """Authenticated: flipping any character makes it worthless."""
    sealer = Sealer([OLD])
    sealed = sealer.seal(VALUE, ORIGIN)
    for position in range(len(SEAL_PREFIX), len(sealed) - 1):
        changed = sealed[:position] + ("A" if sealed[position] != "A" else "B") + sealed[position + 1 :]
        with pytest.raises(SealError):
            sealer.open(changed)


@pytest.mark.parametrize("value", ["", "trl1.", "trl1.!!!!", "trl1.AAAA", "native", "trl1.é", "trl1." + "A" * 30])
def test_nonsense_is_a_seal_error(value: str) -> None:
    """Whatever a client sends back, only our own error escapes."""
    with pytest.raises(SealError):
        Sealer([OLD]).open(value)


def test_keys_are_checked_and_hidden() -> None:
    """A short key is a mistake to hear of at start-up, and no key shows in a repr."""
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer([b"short"])
    with pytest.raises(ValueError, match="at least one"):
        Sealer([])
    assert repr(Sealer([OLD])) == "Sealer(1 keys)"


def test_knows_whose_a_sealed_value_is() -> None:
    """One key is enough to have made it. What no gateway can have made is nobody's."""
    sealed = Sealer([OLD]).seal(VALUE, ORIGIN)
    assert Sealer([NEW]).of_another(sealed)
    assert not Sealer([NEW, OLD]).of_another(sealed)
    assert not Sealer([NEW]).of_another(SEAL_PREFIX + "AAAA")
    assert not Sealer([NEW]).of_another(VALUE.value)


@pytest.mark.parametrize("length", range(8))
def test_values_of_every_length(length: int) -> None:
    """Whatever padding their base64 would need."""
    sealer = Sealer.ephemeral()
    value = Opaque(kind=OpaqueKind.SIGNATURE, value="x" * length)
    assert sealer.open(sealer.seal(value, ORIGIN)).opaque == value


def test_half_a_character_is_the_upstreams_fault() -> None:
    """It cannot be sealed."""
    with pytest.raises(UpstreamProtocolError, match="half a character"):
        Sealer([OLD]).seal(Opaque(kind=OpaqueKind.SIGNATURE, value="\ud800"), ORIGIN)


def test_too_short_to_be_anybodys() -> None:
    """A key id and a nonce without anything sealed."""
    short = SEAL_PREFIX + urlsafe_b64encode(b"x" * 16).rstrip(b"=").decode()
    assert not Sealer([OLD]).of_another(short)
    assert Sealer([OLD]).of_another(SEAL_PREFIX + urlsafe_b64encode(b"x" * 17).rstrip(b"=").decode())
