"""The unit of packaging/systemd, without a machine to boot: what a wheel has of it, and how systemd rates it."""

import re
import subprocess
import zipfile
from pathlib import Path

from tests.support.machine import build_wheel
from tests.support.pages import ROOT, Page
from tests.support.programs import need_program

UNIT = ROOT / "packaging" / "systemd" / "cairn.service"


def test_the_unit_is_rated_at_most_two() -> None:
    analyze = need_program("systemd-analyze")
    rated = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", str(UNIT)], capture_output=True, text=True, check=True
    )
    [exposure] = re.findall(r"exposure level for cairn.service: ([\d.]+)", rated.stdout)
    assert float(exposure) <= 2.0
    page = " ".join(Page("docs/production.md").text.split())
    assert f"`systemd-analyze security cairn` rates its exposure at {exposure} of 10" in page


def test_a_wheel_has_the_unit_where_the_page_copies_it_from(tmp_path: Path) -> None:
    build_wheel("1.2.3", tmp_path / "dist", tmp_path)
    [wheel] = (tmp_path / "dist").iterdir()
    [place] = re.findall(
        r"install -m 644 /opt/cairn/(\S+)", Page("docs/production.md").section("Run as a service").text
    )
    held = zipfile.ZipFile(wheel).read(f"cairn_node-1.2.3.data/data/{place}")
    assert held == UNIT.read_bytes()
