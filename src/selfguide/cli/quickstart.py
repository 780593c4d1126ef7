"""``selfguide quickstart``."""

import argparse
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selfguide.quickstart import Measured, Outcome

HELP = "train the bundled encoder on bundled sentences and measure the gain (offline, a little over a minute on two cores)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "--output", "-o", metavar="DIR", help="folder for the encoder (default: a fresh selfguide-quickstart)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the run (default: 1)")
    parser.add_argument("--device", default="auto", help="where to run: auto, cpu, cuda or mps (default: auto)")


def run(arguments: argparse.Namespace) -> None:
    """Run the demo."""
    from selfguide.cli.quiet import quiet_libraries
    from selfguide.quickstart import fresh_folder, quickstart
    from selfguide.training.progress import progress_for

    quiet_libraries()
    output = Path(arguments.output) if arguments.output else fresh_folder("selfguide-quickstart")
    outcome = quickstart(output, seed=arguments.seed, device=arguments.device, progress=progress_for(sys.stderr))
    sys.stdout.write(_text(outcome))


def _text(outcome: "Outcome") -> str:
    low, high = outcome.gain_interval
    parts = [
        "",
        "Graded test pairs that neither training nor any choice has seen (cosine Spearman x100, 95% interval over pairs):",
        f"  before, [CLS]   {_with_interval(outcome.before)}",
        f"  after, [MASK]   {_with_interval(outcome.after)}",
        f"  gain            {outcome.gain:+.1f}  ({low:+.1f} to {high:+.1f})",
        "",
        "Nearest of the training sentences:",
    ]
    for sentence, (before, after) in outcome.neighbours.items():
        parts.append(f"  {sentence}")
        parts += [f"    before  {text}" for text in before]
        parts += [f"    after   {text}" for text in after]
    parts += ["", _next_steps(outcome.output)]
    return "\n".join(parts) + "\n"


def _with_interval(measured: "Measured") -> str:
    return f"{measured.score:.1f}  ({measured.interval[0]:.1f} to {measured.interval[1]:.1f})"


def _next_steps(output: Path) -> str:
    return textwrap.dedent(f"""\
        The encoder is in {output}; it loads with SentenceTransformer("{output}").
        All of this as a page, with curves and a map: {output / "selfguide" / "report.html"}
        Now with your own sentences, one a line:
          selfguide train --model mini --data your-sentences.txt --preset prompted --output my-encoder
        """)
