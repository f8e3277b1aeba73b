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

PACKED = """/* Licence: kept */ var __webpack_modules__ = ({

/***/ 1:
/***/ (function(module, exports, __webpack_require__) {
    // `gone`
    /* Copyright kept */
    bar(__webpack_require__(4), "// stays");
    module.exports = { moduleType: 'trace',
        name: 'bar' };
/***/ }),

/***/ 2:
/***/ (function(module) {
    core
/***/ }),

/***/ 3:
/***/ (function(module, exports, __webpack_require__) {
    __webpack_require__(2).register([__webpack_require__(6), __webpack_require__(5)]);
/***/ }),

/***/ 4:
/***/ (function(module) {
    /* stays */ x = `
    // stays`; /* stays */
/***/ }),

/***/ 5:
/***/ (function(module, exports, __webpack_require__) {
    pie(__webpack_require__(4))
/***/ }),

/***/ 6:
/***/ (function(module, exports, __webpack_require__) {
    module.exports = __webpack_require__(1);
/***/ })

/******/ 	});
/******/ 	var __webpack_exports__ = __webpack_require__(3);
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

    def test_of_the_newer_form_too(self) -> None:
        script = script_for(PACKED, ["scatter", "bar"])
        assert "core=__webpack_require__(2);core.register([__webpack_require__(6)])" in script
        assert "pie" not in script and "gone" not in script and "Copyright kept" in script
        assert script.count("stays") == 4
        assert script.startswith("/* Licence: kept */ var __webpack_modules__ = ({\n")
        assert script.endswith(PACKED[PACKED.index("/******/") :])

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "minified=1;",
            BUNDLE.replace("},{}],3:", "}],3:"),
            PACKED.replace("/***/ })\n", "/***/ }\n"),
            PACKED.replace("/******/", ""),
        ],
    )
    def test_another_form_is_taken_as_it_is(self, text: str) -> None:
        assert script_for(text, ["bar"]) == text

    @pytest.mark.parametrize("text", [BUNDLE, PACKED])
    def test_type_that_is_not_there_costs_no_page(self, text: str) -> None:
        assert script_for(text, ["surface"]) == text


class TestPlotly:
    @pytest.fixture(scope="class", autouse=True)
    def plotly(self) -> None:
        pytest.importorskip("plotly")

    def test_pages_are_small_enough_to_mail(self) -> None:
        assert len(packed_plotly(frozenset({"scatter", "bar", "icicle"}))) < 1 << 20
