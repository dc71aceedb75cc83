"""The table of crash points in the docs and the rows that are driven are the same."""

import re
from pathlib import Path

from crash_points import CRASH_POINTS

_ROW = re.compile(r"^\| ([WCF]\d+) \| ([^|]*) \|", re.MULTILINE)
_TEXT = (Path(__file__).parents[3] / "infra" / "CRASH_POINTS.md").read_text()


def test_each_row_of_the_table_is_driven_and_each_that_is_driven_stands_in_it():
    documented = [row for row, _ in _ROW.findall(_TEXT)]
    assert documented == [point.id for point in CRASH_POINTS]
    assert len(set(documented)) == len(documented) > 60


def test_each_row_says_where_it_is_struck():
    struck = {row: where for row, where in _ROW.findall(_TEXT)}
    for point in CRASH_POINTS:
        assert f"{point.moment} `{point.call}`" in struck[point.id], point.id
