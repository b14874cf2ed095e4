"""Groups of settings, and arguments that have moved."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from proq_agent.common.settings import Renamed, Settings, as_settings, changed, to_dict


@dataclass(frozen=True)
class Inner(Settings):
    share: float = 0.5
    steps: int | None = None

    def check(self) -> None:
        self.require(0 <= self.share <= 1, "share", "be a share")


@dataclass(frozen=True)
class Outer(Settings):
    inner: Inner = Inner()
    count: int = 3
    on: bool = True


def test_a_group_is_made_of_an_instance_a_dict_or_nothing():
    assert as_settings(Outer, None) == Outer() == as_settings(Outer, {})
    made = as_settings(Outer, {"inner": {"share": 1}, "count": 2})
    assert made == Outer(Inner(1.0), 2) and as_settings(Outer, made) is made
    assert to_dict(made) == {"inner": {"share": 1, "steps": None}, "count": 2, "on": True}
    assert as_settings(Outer, to_dict(made)) == made


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"inner": {"share": 2.0}}, "share must be a share, got 2.0"),
        ({"inner": {"share": math.nan}}, "share must be a number, got nan"),
        ({"inner": {"share": 10**30}}, "share must be a number, got 10000"),
        ({"inner": {"share": 10**400}}, "share must be a number, got 10000"),
        ({"inner": {"steps": 1.5}}, "steps must be a whole number or None, got 1.5"),
        ({"count": True}, "count must be a whole number, got True"),
        ({"on": 1}, "on must be true or false, got 1"),
        ({"cuont": 1}, "Outer has no setting 'cuont'; did you mean count"),
        ({"zzz": 1}, "known are inner, count, on"),
        ([1], "Outer or a dict of its settings"),
    ],
)
def test_what_makes_no_sense_is_named(value, message):
    with pytest.raises(ValueError, match=message):
        as_settings(Outer, value)


def test_changes_reach_into_groups_and_leave_the_rest():
    before = {"a": 1, "group": Outer()}
    after = changed(before, {"a": 2, "group": {"inner": {"share": 0.1}}})
    assert after == {"a": 2, "group": {"inner": {"share": 0.1, "steps": None}, "count": 3, "on": True}}
    assert before == {"a": 1, "group": Outer()}


def test_old_names_change_the_groups_that_they_have_gone_to():
    renamed = Renamed({"share": "group.inner.share", "count": "group.count"}, {"speed": 1})
    with pytest.warns(FutureWarning, match=r"share is group\.inner\.share now, count is group\.count now") as warned:
        new = renamed({"other": 7, "group": None, "share": 0.2, "speed": 1, "count": 4})
    assert len(warned) == 1
    assert new == {"other": 7, "group": {"inner": {"share": 0.2}, "count": 4}}
    with pytest.warns(FutureWarning):
        assert renamed({"group": Outer(count=9), "share": 0.2})["group"]["count"] == 9
    assert "share" in renamed and "speed" in renamed and "other" not in renamed


def test_nothing_is_said_about_present_names(recwarn):
    assert Renamed({"a": "b.c"}, {})({"b": 1, "d": None}) == {"b": 1, "d": None}
    assert not recwarn.list


def test_what_is_gone_is_refused_unless_it_asks_for_what_happens_anyway():
    with pytest.raises(ValueError, match="speed is no longer an option"):
        Renamed({}, {"speed": 1})({"speed": 2})
