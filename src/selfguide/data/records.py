"""The STS data sets as records: where each lies, what it must hold, and where the hub has a copy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from selfguide.data.sick import TEST_PAIRS

_ENGLISH = {"raw": "sts", "senteval": "sts-senteval-tok"}
"""Text variants: as released, and as SentEval's script leaves it (Moses-tokenised; all but SICK-R also lower-cased)."""
_MULTILINGUAL = {"raw": "sts-multilingual"}


@final
@dataclass(frozen=True)
class HubCopy:
    """A copy on the Hugging Face hub, at the revision that mteb 2.26 names."""

    path: str
    revision: str
    text: str
    """The text variant, told by mteb's statistics of its characters (``mteb/descriptive_stats``)."""
    config: str | None = None
    split: str = "test"
    columns: tuple[str, str, str] = ("score", "sentence1", "sentence2")
    chosen: str | None = None
    """Which of its pairs are meant, where it holds more; see :mod:`selfguide.data.sick`."""


@final
@dataclass(frozen=True)
class StsRecord:
    """A data set of scored pairs."""

    name: str
    files: Mapping[str, int]
    """Name of each file without ``.tsv`` -> pairs in it."""
    pairs_sha256: str
    """:func:`selfguide.data.digests.pairs_digest` of all pairs."""
    text_sha256: Mapping[str, str]
    """Text variant -> :func:`selfguide.data.digests.text_digest` of all pairs."""
    licence: str
    hub: HubCopy | None
    split: str = "test"
    scores: tuple[float, float] = (0, 5)
    """Lowest and highest score allowed."""
    has_subsets: bool = False
    """Whether the files are subsets, for each of which the older papers have a score."""
    folder: str = ""
    """Of the files, below that of the text variant; the name by default."""
    roots: Mapping[str, str] = field(default_factory=lambda: _ENGLISH)
    """Text variant -> folder below the data folder."""


_BY_SOURCE = "by source, for research; see the task's readme"
_SICK_LICENCE = "CC BY-NC-SA 3.0"

SEVEN = (
    StsRecord(
        name="STS-B",
        files={"test": 1379},
        pairs_sha256="7666f87f95bca027d5c2e84200b4399b84e89f225885f1032e848fb388bf6873",
        text_sha256={
            "raw": "09ba4750a561c3ae428c2ed7206ac6b09e628b2d89b592278e83b03e93abfe61",
            "senteval": "bc33ca07058159a89c40fb8b8724d3ea70f4a268432317cc732645ab62bcf493",
        },
        licence="by source, largely CC BY-SA; see its LICENSE.txt",
        hub=HubCopy("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831", "raw"),
    ),
    StsRecord(
        name="SICK-R",
        files={"test": 4927},
        pairs_sha256="0221a1d17daafe7943ad63add503ed0ce9a487b90c28dd628896a6f549a44439",
        text_sha256={
            "raw": "67aed31812150929691e1c3e21318f0b9db57064cf833a49c52d6be937fdb639",
            "senteval": "dd7fe104d05bf1ed6e5bd607b2b59504383a31befec2dc72bdee33b16dfa5c1b",
        },
        licence=_SICK_LICENCE,
        hub=HubCopy("mteb/sickr-sts", "20a6d6f312dd54037fe07a32d58e5e168867909d", "raw", chosen=TEST_PAIRS),
        scores=(1, 5),
    ),
    StsRecord(
        name="STS12",
        files={"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
        pairs_sha256="7948aa36ce51b1d1c5c6d45a700e11bb4ec718b6babb5d89b06eb29817d31afa",
        text_sha256={
            "raw": "a7a77f5e6daa92efb9bc892a2c623035fc39e2ce03ef4d327061af1c683d90a7",
            "senteval": "e6cca7cc9a7124919d45448ba50ec232ba5944e170a2c3396687dd9ed7788485",
        },
        licence="MSRpar and MSRvid: Microsoft Research, for research; the others by source",
        hub=HubCopy("mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384", "senteval"),
        has_subsets=True,
    ),
    StsRecord(
        name="STS13",
        files={"FNWN": 189, "OnWN": 561, "headlines": 750},
        pairs_sha256="3023a8820551194d144542c338ede1b61189b2e04a81f82322ceb1dcbbfdb6c8",
        text_sha256={
            "raw": "f9a5940b391afbe3ea51cc03077712c4166c74f194046aff87a7457155dab878",
            "senteval": "a095b5bb209b5db2fcc0e4215edfe1751d6d282d1d151889df26615fef37d4a0",
        },
        licence=_BY_SOURCE,
        hub=HubCopy("mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca", "senteval"),
        has_subsets=True,
    ),
    StsRecord(
        name="STS14",
        files={
            "OnWN": 750,
            "deft-forum": 450,
            "deft-news": 300,
            "headlines": 750,
            "images": 750,
            "tweet-news": 750,
        },
        pairs_sha256="86a016e5ebb93c4745a98295ed45974499296cdb684bf5901b602f6175dfa371",
        text_sha256={
            "raw": "147ac04320a2a66349ee4561bfeedde180e8effc353ece46a44498edddf53689",
            "senteval": "99beaff8e71bfa75142177f07460f3089f320f34d332a1f9be1eefb1a3bdec5b",
        },
        licence=_BY_SOURCE,
        hub=HubCopy("mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375", "senteval"),
        has_subsets=True,
    ),
    StsRecord(
        name="STS15",
        files={"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
        pairs_sha256="24a532fad8c96890c7d793faad318206ef9add61fb172f1b38edf400d6ee7f6b",
        text_sha256={
            "raw": "342c7580a6080adf48cdbbfd974dcf851ecf0eae82c1127f65755f60bda3ae46",
            "senteval": "cf4084a6f3036bcbf7b8546e0d6e1d7654280984394099ea190f187db126e604",
        },
        licence=_BY_SOURCE,
        hub=HubCopy("mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3", "senteval"),
        has_subsets=True,
    ),
    StsRecord(
        name="STS16",
        files={
            "answer-answer": 254,
            "headlines": 249,
            "plagiarism": 230,
            "postediting": 244,
            "question-question": 209,
        },
        pairs_sha256="2e41f095201ec4dc31df878f66521ee8943e4221eb00c3d385fbfb2fc0c8adca",
        text_sha256={
            "raw": "73948217a8266bf9f574dfbe39ca04a0169e1654ea2ef91f5fafbfba70b44440",
            "senteval": "d866cb68ddbbf99cb1404bebad88b72bbeb504082e85fe3a3094327aeaa1f029",
        },
        licence=_BY_SOURCE,
        hub=HubCopy("mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513", "senteval"),
        has_subsets=True,
    ),
)
"""The paper's seven English sets, in the order of its columns."""

SICK_ALL = StsRecord(
    name="SICK-R",
    files={"train": 4500, "dev": 500, "test": 4927},
    pairs_sha256="c47f5691c56fdddbca33a986c8e6d9d91c14bfcc03b218136ac9a0222c544e12",
    text_sha256={
        "raw": "c47dc5f6efdd5b9bf37a513e4af4c4e7be7835f48bdb76d3118313fcc942a16e",
        "senteval": "292e36dbf4bf550548be668011c222d64c38deb154c60b7dc75ec2823d90e2c7",
    },
    licence=_SICK_LICENCE,
    hub=HubCopy("mteb/sickr-sts", "20a6d6f312dd54037fe07a32d58e5e168867909d", "raw"),
    split="all",
    scores=(1, 5),
)
"""SICK-R as MTEB scores it: all pairs."""

MULTILINGUAL = (
    StsRecord(
        name="SemEval2014-es",
        files={"news": 480, "wikipedia": 324},
        pairs_sha256="f4d1c2bbfce7b40ffb861376622e2edf75bf3f74574421b9df314c61bf2cb67f",
        text_sha256={
            "raw": "f547b9969a8753e95867dc279d4d001e6e85a41db016799dbf65b9721e66df4e",
        },
        licence=_BY_SOURCE,
        hub=None,
        scores=(0, 4),
        has_subsets=True,
        roots=_MULTILINGUAL,
    ),
    StsRecord(
        name="SemEval2017-ar-ar",
        files={"ar-ar": 250},
        pairs_sha256="aa92d7f6038073d0b1730bb584ec60e0e6288714eefec1a38d0b0abdc546e089",
        text_sha256={
            "raw": "dbacc3e59da6e3f4ae38630a3b84fccc4db5797a5f2122caa5591c12e5bd11ab",
        },
        licence="CC BY-SA 4.0",
        hub=HubCopy("mteb/sts17-crosslingual-sts", "faeb762787bd10488a50c8b5be4a3b82e411949c", "raw", config="ar-ar"),
        folder="SemEval2017",
        roots=_MULTILINGUAL,
    ),
    StsRecord(
        name="SemEval2017-es-es",
        files={"es-es": 250},
        pairs_sha256="b505c16a3d55c4550725b068c1a3a07426e08c32e945358411874b61f8932fa2",
        text_sha256={
            "raw": "2a491c905ea6286c6787f811fb99df4689078aa9ea93d66c4242d35598b349f8",
        },
        licence="CC BY-SA 4.0",
        hub=HubCopy("mteb/sts17-crosslingual-sts", "faeb762787bd10488a50c8b5be4a3b82e411949c", "raw", config="es-es"),
        folder="SemEval2017",
        roots=_MULTILINGUAL,
    ),
    StsRecord(
        name="SemEval2017-en-en",
        files={"en-en": 250},
        pairs_sha256="cdb94c0ddd2ba7c63a79dc021e8fbf07d402b9384dbf83d3444a61a8491e8593",
        text_sha256={
            "raw": "5ccd05fae1c1c257a18863b67417fdb59ded43e96c15d3d67be81d58e8b22a48",
        },
        licence="CC BY-SA 4.0",
        hub=HubCopy("mteb/sts17-crosslingual-sts", "faeb762787bd10488a50c8b5be4a3b82e411949c", "raw", config="en-en"),
        folder="SemEval2017",
        roots=_MULTILINGUAL,
    ),
)
"""SemEval-2014 Spanish, and tracks 1, 3 and 5 of SemEval-2017. The hub has no copy of the former that holds both subsets."""
