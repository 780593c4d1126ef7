"""The settings of an evaluation; imports nothing heavy, so that ``--help`` is quick."""

from dataclasses import dataclass
from typing import Any, final

from selfguide import choices
from selfguide.errors import InputError
from selfguide.settings import check_values, setting


@final
@dataclass(frozen=True)
class EvaluationConfig:
    """What is scored, on what, and by which protocol. The defaults are the paper's."""

    model: str = setting("mini", "what to score: a hub name, a folder, a word-vector file, or 'mini' (the bundled encoder)")
    embedder: str | None = setting(
        None,
        f"cls, mean, max, last-K, first-last, embeddings-last, {', '.join(choices.EMBEDDERS)}, sentence-transformers or "
        "word-vectors (default: what the model is; of a plain encoder, cls)",
    )
    layer: int | None = setting(None, "layer that cls, mean and max pool; 0 is the embeddings (default: the last one)")
    fit_on: tuple[str, ...] = setting(
        (),
        f"sentences that {', '.join(choices.LEARNING_EMBEDDERS)} and int8 vectors learn from: files, folders, ... (to "
        "choose columns of a table, see 'selfguide fit')",
        metavar="F",
    )
    pooling: str | None = setting(
        None, "pooling that flow, whitening and pca work on (default: first-last; of pca, the model's own)"
    )
    dimensions: int | None = setting(None, "dimensions that whitening and pca keep (default: all)")
    vectors: str = setting(
        "float32", "score what vectors become when stored so (int8: needs --fit-on)", choices=choices.VECTORS
    )
    truncate_dim: int | None = setting(None, "keep only the first dimensions of vectors", metavar="K")
    template: str | None = setting(None, "text of prompt, with {sentence} and {mask}", metavar="TEXT")
    name: str | None = setting(None, "name of the embedder in the rows (default: made from the model's)")
    tasks: tuple[str, ...] = setting(
        (),
        "sts, sts-multilingual, senteval, glue, or data sets (STS-B, MR, ...); also with commas (default: sts)",
        metavar="TASK",
    )
    pairs: tuple[str, ...] = setting((), "files of scored pairs of your own (tsv, csv, jsonl)", metavar="F")
    data: str | None = setting(None, "folder with the data sets (default: the hub's copies)", metavar="DIR")
    text: str | None = setting(
        None, "text variant of the seven English sets (default: raw, or what the hub's copy is)", choices=choices.TEXTS
    )
    aggregation: str = setting("all", "how subsets of STS12 to STS16 become one number", choices=choices.AGGREGATIONS)
    sick: str = setting("test", "pairs of SICK-R: test (the paper, SentEval) or all (MTEB)", choices=choices.SICK_SPLITS)
    hidden: int = setting(50, "hidden units of SentEval's classifier; 0 for logistic regression")
    sst_train: str = setting("phrases", "what SentEval's SST2 is trained on", choices=choices.SST_TRAIN)
    sweep: bool = setting(False, "score every layer with cls, mean and max instead (default task: STS-B)")
    analyses: bool = setting(False, "also alignment, uniformity and isotropy on STS-B")
    output: str | None = setting(None, "file of JSON lines to add rows to; known ones are not computed again", metavar="F")
    recompute: bool = setting(False, "compute also what --output already holds")
    seed: int = setting(1, "seed of classifiers that a task trains")
    max_length: int | None = setting(None, "longest input in tokens (default: what the model says, or 128)")
    device: str = setting("auto", "where to run", choices=choices.DEVICES)
    revision: str | None = setting(None, "commit, tag or branch of a hub model")
    trust_remote_code: bool = setting(False, "run code that comes with a hub model")

    def __post_init__(self) -> None:
        wrong = check_values(self)
        problems = list(wrong.values())
        if self.sweep and (self.embedder is not None or self.layer is not None):
            problems.append("--sweep goes through all layers and poolings; leave --embedder and --layer out")
        if self.sweep and self.analyses:
            problems.append("--sweep and --analyses do not go together; ask for one at a time")
        if self.truncate_dim is not None and "truncate_dim" not in wrong and self.truncate_dim < 1:
            problems.append(f"--truncate-dim is {self.truncate_dim}; it must be 1 or more")
        if self.vectors == "int8" and not self.fit_on:
            problems.append("--vectors int8 has a scale, which is taken from text: give sentences with --fit-on F")
        if self.sweep and self.is_stored:
            problems.append("--sweep scores vectors as they are; leave --vectors and --truncate-dim out")
        if problems:
            raise InputError("; ".join(problems))

    @property
    def is_stored(self) -> bool:
        """Whether vectors are scored as a store would hold them."""
        return self.vectors != "float32" or self.truncate_dim is not None

    @property
    def protocol_choices(self) -> dict[str, Any]:
        """The choices that numbers depend on, beside those that are the embedder's."""
        return {name: getattr(self, name) for name in ("aggregation", "text", "sick", "hidden", "sst_train", "seed")}

    @property
    def embedder_parameters(self) -> dict[str, Any]:
        """What was said about an embedder that is more than a pooling; the seed is one of the evaluation, too."""
        named = {name: getattr(self, name) for name in ("pooling", "dimensions", "template")}
        given = {name: value for name, value in named.items() if value is not None}
        return {**given, "seed": self.seed} if self.embedder == "flow" else given

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks asked for; with none, all of STS, of which a sweep takes STS-B, or only the pairs that were given."""
        names = tuple(name.strip() for text in self.tasks for name in text.split(",") if name.strip())
        if names or self.pairs:
            return names
        return ("STS-B",) if self.sweep else ("sts",)
