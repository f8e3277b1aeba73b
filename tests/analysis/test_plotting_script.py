# SPDX-License-Identifier: MIT
"""The part of plotly's script that a page carries. That it draws is for the tests of pages."""

import pytest
from allotrope.output.page import packed_plotly
from allotrope.output.plotting_script import script_for

BUNDLE = """/* Licence: kept */ prelude({1:[function(_dereq_,module,exports){
    // gone
    /* Copyright kept */
    bar(_dereq_('../x'), "// stays");
},{"../x":4}],2:[function(_dereq_,module,exports){
    core
},{}],3:[function(_dereq_,module,exports){
    _dereq_('./core').register([_dereq_('./bar'), _dereq_('./pie')]);
},{"./bar":1,"./core":2,"./pie":5}],4:[function(_dereq_,module,exports){
    x
},{}],5:[function(_dereq_,module,exports){
    pie
},{}]},{},[3])(3)
});
"""


class TestBundle:
    def test_what_nobody_asks_for_is_left_out(self) -> None:
        script = script_for(BUNDLE, ["scatter", "bar"])
        assert "core.register([_dereq_('./bar')])" in script
        assert "x\\n" in repr(script) and "pie" not in script
        assert script.startswith("/* Licence: kept */ prelude({1:[")
        assert script.rstrip().endswith("},{}]},{},[3])(3)\n});")

    def test_notices_and_strings_stay_and_other_comments_go(self) -> None:
        script = script_for(BUNDLE, ["bar"])
        assert "Copyright kept" in script and '"// stays"' in script and "gone" not in script

    @pytest.mark.parametrize("text", ["", "minified=1;", BUNDLE.replace("},{}],3:", "}],3:")])
    def test_another_form_is_taken_as_it_is(self, text: str) -> None:
        assert script_for(text, ["bar"]) == text

    def test_type_that_is_not_there_costs_no_page(self) -> None:
        assert script_for(BUNDLE, ["surface"]) == BUNDLE


class TestPlotly:
    @pytest.fixture(scope="class", autouse=True)
    def plotly(self) -> None:
        pytest.importorskip("plotly")

    def test_pages_are_small_enough_to_mail(self) -> None:
        assert len(packed_plotly(frozenset({"scatter", "bar", "icicle"}))) < 1 << 20
