"""The rule-based engine, run for real: as its own command line, in order, without deadlock, and when it dies."""

import subprocess
import threading

import psutil
import pytest

from selfguide.errors import InputError, MissingExtraError, SelfguideError
from selfguide.translation.apertium import ApertiumTranslator

SENTENCES = (
    "The cat sits on the mat.",
    "no stop at the end",
    "A [bracket], a {brace}, ^hats$ and @signs, 50% of #1 \\ or / that <b>bold</b> word",
    "Is it true? Yes! It is ~ about right~ly so.",
    "Señor Müller paid 3.50 € for the café's naïve zzyzx.",
    "A girl is styling her hair; two men are playing chess...",
)


@pytest.fixture
def translator(apertium):
    return ApertiumTranslator("eng-spa")


def command_line(sentence, mode):
    done = subprocess.run(["apertium", "-u", mode], input=sentence, capture_output=True, text=True, check=True)
    return " ".join(done.stdout.split())


def test_the_way_there_and_back(translator):
    (between,) = translator.translate(["The cat sits on the mat."])
    assert between == "El gato sienta en la estera."
    assert ApertiumTranslator("spa-eng").translate([between]) == ["The cat seats in the mat."]


def test_it_is_what_the_command_line_gives(translator):
    assert translator.translate(SENTENCES) == [command_line(sentence, "eng-spa") for sentence in SENTENCES]


def test_a_batch_does_not_depend_on_those_before(translator):
    """Inside a batch a sentence does: the tagger remembers that "included" may be adjective, adverb and verb."""
    first = "Shinseki retires Wednesday after a 38-year career that included combat in Vietnam."
    second = "Gov. John Baldacci said after votes from Tuesday's referendum were counted."
    alone = ApertiumTranslator("eng-spa").translate([second])
    assert translator.translate([first, second])[1:] != alone
    assert translator.translate([second]) == alone


def test_no_text_is_a_record_too(translator):
    assert translator.translate(["", "a cat", " ", "a dog"]) == ["", "Un gato", "", "Un perro"]
    assert translator.translate([]) == []


def test_many_sentences_come_in_order(translator):
    """Far more than the pipes between the processes hold."""
    sentences = [f"The cat {number} sits on the mat of the old woman who has {number + 1} dogs." for number in range(1000)]
    found = translator.translate(sentences)
    assert len(found) == 1000
    assert all(f" {number} " in text and f" {number + 1} " in text for number, text in enumerate(found))


def test_the_locale_of_the_user_does_not_matter(apertium, monkeypatch):
    monkeypatch.setenv("LC_ALL", "POSIX")
    assert ApertiumTranslator("spa-eng").translate(["El niño está aquí."]) == ["The boy is here."]


@pytest.mark.parametrize("victim", [0, 5, -1], ids=["first", "middle", "last"])
def test_a_pipeline_of_which_a_part_dies_is_told(translator, victim):
    translator.translate(["a cat"])  # from now on the pipeline is all that is started

    def kill():
        parts = []
        while len(parts) < 10:
            parts = [part for shell in psutil.Process().children() for part in shell.children()]
        parts[victim].kill()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(SelfguideError, match=r"apertium eng-spa broke down \(exit code -?\d+.*; what was translated before"):
        translator.translate(["The old man and the sea are good friends of the cat."] * 20_000)
    killer.join()


def test_another_mode_is_another_identity(apertium):
    there, back = (ApertiumTranslator(mode).identity for mode in ("eng-spa", "spa-eng"))
    assert there == ApertiumTranslator("eng-spa").identity
    assert there["rules"] != back["rules"]


@pytest.mark.parametrize("mode", ["eng-xyz", "../modes/eng-spa", ""])
def test_a_mode_that_is_not_there(apertium, mode):
    with pytest.raises(InputError, match=r"apertium has no mode '.*there are: .*eng-spa.*install its language pair"):
        ApertiumTranslator(mode)


def test_apertium_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match="not installed: apt-get install apertium-eng-spa"):
        ApertiumTranslator("eng-spa")
