"""The model card: what the encoder is, how it came about, what it scored and how to use it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from selfguide.training.config import TrainingConfig, changed_settings


@final
@dataclass(frozen=True)
class RunSummary:
    """What is told about a finished run."""

    config: TrainingConfig
    data: str
    """One line on the training sentences: how many were kept and dropped."""
    steps_taken: int
    steps_planned: int
    processes: int
    """That trained together, each on batches of its own."""
    dim: int
    first_token: str
    template: str | None
    """What the encoder reads in place of a sentence, if its tokenizer holds a template."""
    kept_step: int
    before: float | None
    """Dev score before training, if there were labelled pairs."""
    after: float | None
    seconds: float
    last: dict[str, float]
    """Monitors of the last step."""
    after_cut: float | None = None
    """Dev score of the saved vectors, where they have fewer dimensions than the encoder."""

    @property
    def selected_by_labels(self) -> bool:
        """Whether labelled pairs, or a score function, chose the step that was kept."""
        return self.after is not None


def write_card(folder: Path, summary: RunSummary) -> None:
    """Write ``README.md``."""
    config = summary.config
    head = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": [
            "sentence-transformers",
            "feature-extraction",
            "sentence-similarity",
            "selfguide",
            "self-guided",
            "unsupervised",
        ],
    }
    if _is_hub_name(config.model):
        head["base_model"] = config.model
    front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in head.items())
    (folder / "README.md").write_text(
        f"---\n{front}\n---\n\n{_body(summary)}",
        encoding="utf-8",
    )


def _body(summary: RunSummary) -> str:
    config = summary.config
    token = f"first token ({summary.first_token})" if config.anchor == "cls" else f"{config.anchor} of the tokens"
    cut = f", cut to {summary.dim} dimensions by PCA of the training sentences" if config.dimensions else ""
    return f"""# Sentence encoder trained by self-guided contrastive learning

A sentence in, a vector of {summary.dim} numbers out: the {token} of the last layer{cut}. Trained from `{config.model}` with
[selfguide](https://pypi.org/project/selfguide/) on raw sentences, by the objective `{config.objective}` of "Self-Guided
Contrastive Learning for BERT Sentence Representations" (ACL 2021).
{_template(summary)}
## Use

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/or/name/of/this/model")
vectors = model.encode(["A child feeds the ducks.", "Ducks are being fed by a child."])
print(model.similarity(vectors, vectors))
```

## Data

{summary.data}

## Scores

{_scores(summary)}

## Settings

{summary.steps_taken:,} of {summary.steps_planned:,} steps of {_step_size(summary)}, in {summary.seconds:.0f} s;
the weights of step {summary.kept_step:,} were kept. Settings that differ from the defaults of selfguide:

{_settings(config)}

All settings: `selfguide/config.json`; losses and scores by step: `selfguide/metrics.jsonl`.
"""


def _template(summary: RunSummary) -> str:
    if summary.template is None:
        return ""
    return (
        f"\nThe model reads every sentence as `{summary.template}`. This template is inside the tokenizer\n"
        "(`tokenizer.json`): give plain sentences, nothing has to be added to them.\n"
    )


def _scores(summary: RunSummary) -> str:
    monitors = ", ".join(f"{name} {value:.3f}" for name, value in summary.last.items())
    if not summary.selected_by_labels:
        return (
            "No labelled pairs were given: the number of steps was fixed beforehand and no score chose the checkpoint.\n"
            f"Monitors of the last step: {monitors}."
        )
    if summary.config.dev is None:
        return (
            f"A score function given in Python chose the checkpoint: {summary.before:.2f} before training, "
            f"{summary.after:.2f} after{_of_the_cut(summary)}.\nMonitors of the last step: {monitors}."
        )
    after = f"{summary.after:.2f}{_of_the_cut(summary)}"
    return (
        f"| pairs | before | after |\n|---|---|---|\n"
        f"| `{summary.config.dev}` (cosine Spearman x100) | {summary.before:.2f} | {after} |\n\n"
        "**The labels of these pairs chose the checkpoint**, so the second figure is not that of unseen data.\n"
        f"Monitors of the last step: {monitors}."
    )


def _of_the_cut(summary: RunSummary) -> str:
    """The score of what is saved, where that is not what was scored while training."""
    return "" if summary.after_cut is None else f", {summary.after_cut:.2f} with the {summary.dim} dimensions that are saved"


def _step_size(summary: RunSummary) -> str:
    """Sentences of a step, and of a batch where a step has several; only those of a batch are told apart."""
    size = summary.config.batch_size
    batches = summary.config.accumulation * summary.processes
    return f"{size} sentences" if batches == 1 else f"{batches * size} sentences in {batches} batches"


def _settings(config: TrainingConfig) -> str:
    changed: dict[str, Any] = changed_settings(config)
    for name in ("output", "data", "model", "dev"):
        changed.pop(name, None)
    return "\n".join(f"- `{name}`: `{value}`" for name, value in changed.items()) or "- none"


def _is_hub_name(model: str) -> bool:
    return model != "mini" and not Path(model).expanduser().exists()


def summary_as_json(summary: RunSummary) -> dict[str, Any]:
    """The summary without the configuration, which has its own file."""
    return {name: value for name, value in asdict(summary).items() if name != "config"}
