"""Write the report, or the page of the campaign.

python -m tests.robustness.report DIR... --out docs/robustness
python -m tests.robustness.report --add build/robustness/torture
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.robustness.report.campaign import Campaign, NothingNewError
from tests.robustness.report.campaign_page import page as campaign_page
from tests.robustness.report.choose import choose
from tests.robustness.report.page import page
from tests.robustness.report.results import controls, runs
from tests.robustness.report.svg import draw
from tests.robustness.report.timeline import timeline
from tests.robustness.report.web import standalone

KINDS = ("overlap", "refused", "failover")


def write(folders: list[Path], out: Path, html: Path) -> int:
    """Write the page, its pictures, and the page as one file; tell how many runs there were."""
    found = runs(folders)
    chosen = choose(found)
    out.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        for old in out.glob(f"{kind}-*.svg"):
            old.unlink()
    pictures = {one.file: draw(timeline(one.moment, one.run.title)) for one in chosen}
    for name, svg in pictures.items():
        (out / name).write_text(svg, "utf-8")
    text = page(found, chosen, controls(folders))
    (out / "report.md").write_text(text, "utf-8")
    html.parent.mkdir(parents=True, exist_ok=True)
    html.write_text(standalone(text, pictures), "utf-8")
    return len(found)


def add(folders: list[Path], out: Path) -> int:
    """Add runs to the ledger of the campaign, and write its page."""
    campaign = Campaign.read()
    try:
        count = sum(campaign.add(folder) for folder in folders)
    except (NothingNewError, OSError) as error:
        print(error)
        return 1
    campaign.write()
    (out / "campaign.md").write_text(campaign_page(campaign), "utf-8")
    print(f"{count} runs were added: {out / 'campaign.md'}")
    return 0


def main() -> int:
    """Do what is asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, help="with result.json's under them")
    parser.add_argument(
        "--add", action="store_true", help="the runs to the campaign; no folder: only its page"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/robustness"))
    parser.add_argument("--html", type=Path, default=Path("build/robustness/report.html"))
    asked = parser.parse_args()
    if asked.add:
        return add(asked.folders, asked.out)
    count = write(asked.folders, asked.out, asked.html)
    print(f"{count} runs: {asked.out / 'report.md'}, {asked.html}")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
