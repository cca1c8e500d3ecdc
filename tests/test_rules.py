"""Rules are checked against the types of the facts before they run, and say why they cannot."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_contracts.expression import RuleSyntaxError
from eagle3_contracts.facts import GROUPS
from eagle3_contracts.rules import (
    FUNCTIONS,
    MAX_LENGTH,
    RuleError,
    check_names,
    check_types,
    compile_rule,
    compile_template,
    named_groups,
)

FACTS: dict[str, dict[str, Any]] = {
    "subject": {"name": "kimi", "captures": True},
    "draft": {"num_aux": 3, "layer_ids": [2, 30, 58], "aux_width": None, "hidden_size": None},
    "capture": {"boundaries": [3, 31, 31], "error": 0.0123456789, "width": 21504, "enabled": True},
    "launch": {"flags": {"tp-size": "8"}},
}


def mistakes(source: str) -> list[str]:
    """Return every mistake of a rule, after the part of the source that it is about."""
    rule = compile_rule(source)
    found = check_names(rule) + check_types(rule)
    return [f"{source[at:][:12].strip()} | {said}" for at, said in found]


@pytest.mark.parametrize(
    "source",
    [
        "size(capture.boundaries) * target.hidden_size == capture.width",
        "capture.boundaries.all(b, b >= 0 && b <= capture.num_layers)",
        "draft.layer_ids.map(i, i + 1) == capture.boundaries",
        "draft.layer_ids.map(i, i > 0, string(i)).exists(s, s.startsWith('3'))",
        "capture.boundaries.filter(b, b > 3).size() == distinct(draft.layer_ids).size()",
        "sorted(draft.layer_ids)[0] == first(draft.layer_ids, 1)[0]",
        "draft.aux_width != null && draft.aux_width / 2 == 3",
        "draft.num_aux == (subject.captures ? 3 : 1)",
        "!subject.captures || -draft.num_aux < 0",
        "capture.error * 2.0 < 1.0 && capture.error < 1",
        "double(draft.num_aux) * capture.error < 0.5",
        "'tp-size' in launch.flags && launch.flags['tp-size'] == '8'",
        "launch.flags.all(name, name.contains('-'))",
        "has(launch.flags.tp) && launch.flags.tp == '1'",
        "draft.num_aux in [1, 3] && 3 in capture.boundaries",
        "{'a': draft.num_aux}.a == 3 && [] != capture.boundaries",
        "join(draft.layer_ids, ', ').matches(r'^\\d') // a remark",
        "subject.name == 'it\\'s' + \"x\" || subject.name == '''a\nb'''",
        "capture.boundaries.all(draft, draft > 0)",
    ],
)
def test_a_right_rule_has_no_mistakes(source: str) -> None:
    assert mistakes(source) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("captur.width > 2", "captur.width | unknown name 'captur'; did you mean 'capture'?"),
        ("capture.widht > 2", "widht > 2 | unknown fact 'capture.widht'; did you mean 'width'?"),
        ("True", "True | unknown name 'True'; did you mean 'true'?"),
        ("sizes([1]) > 0", "sizes([1]) > | unknown function 'sizes'; did you mean 'size'?"),
        ("[1].al(x, x > 0)", "al(x, x > 0) | unknown function 'al'; did you mean 'all'?"),
        ("[1].all(x, y > 0)", "y > 0) | unknown name 'y'; known are " + ", ".join(
            sorted(GROUPS))),
    ],
)  # fmt: skip
def test_an_unknown_name_is_answered_with_the_nearest(source: str, said: str) -> None:
    assert [said in found for found in mistakes(source)][:1] == [True]


def test_names_in_strings_and_of_bound_variables_are_no_facts() -> None:
    rule = compile_rule("draft.layer_ids.all(load, load > 0) && 'capture.width' != \"target.x\"")
    assert rule.groups == {"draft"}
    assert mistakes(rule.source) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("capture.width", "capture.widt | must give bool, and gives int"),
        ("draft.layer_ids + 1 == [2]", "+ 1 == [2] | '+' does not go with list of int and int"),
        ("capture.width == 'x'", "== 'x' | '==' does not go with int and string"),
        ("capture.boundaries == 3", "== 3 | '==' does not go with list of int and int"),
        ("[1].all(x, x == 'a')", "== 'a') | '==' does not go with int and string"),
        ("capture.boundaries[0] == 'a'", "== 'a' | '==' does not go with int and string"),
        (
            "draft.layer_ids == ['a']",
            "== ['a'] | '==' does not go with list of int and list of string",
        ),
        ("subject.captures == 1", "== 1 | '==' does not go with bool and int"),
        (
            "capture.error < 2 * capture.error",
            "* capture.er | '*' does not go with int and double; write double(x)",
        ),
        ("capture.width && true", "&& true | '&&' does not go with int and bool"),
        ("!capture.width", "!capture.wid | '!' does not go with int"),
        ("-subject.name == 'a'", "-subject.nam | '-' does not go with string"),
        ("capture.width ? true : false", "capture.widt | '?' needs bool, not int"),
        ("draft.layer_ids < [1]", "< [1] | '<' does not go with list of int and list of int"),
        ("1.0 in draft.layer_ids", "in draft.lay | 'in' does not go with double and list of int"),
        ("3 in capture.width", "in capture.w | 'in' does not go with int and int"),
        ("launch.flags.tp == 8", "== 8 | '==' does not go with string and int"),
        ("launch.flags[8] == 'a'", "[8] == 'a' | map of string has no element by int"),
        ("draft.layer_ids['a'] == 1", "['a'] == 1 | list of int has no element by string"),
        ("draft.layer_ids.size == 3", "size == 3 | list of int has no field 'size'"),
        ("draft == null", "draft == nul | 'draft' is a group of facts; name one of its fields"),
        (
            "join(draft.layer_ids) == ''",
            "join(draft.l | join() takes list, string, not list of int",
        ),
        (
            "startsWith(subject.name, 'k')",
            "startsWith(s | write x.startsWith(y), not startsWith(x, y)",
        ),
        ("[1].all(x, x)", "all(x, x) | all() takes a name and a condition of type bool"),
        ("capture.width.exists(x, true)", "exists(x, tr | int has no exists()"),
        ("subject.captures || draft.num_aux > 'a'", "> 'a' | '>' does not go with int and string"),
    ],
)
def test_a_wrong_type_is_found_where_it_stands_also_behind_a_condition(
    source: str, said: str
) -> None:
    assert mistakes(source) == [said]


@pytest.mark.parametrize(
    ("source", "offset", "said"),
    [
        ("", 0, "not an expression: its end is not expected here"),
        ("capture.width ==", 16, "not an expression: its end is not expected here"),
        ("capture\n.width\n == )", 19, "not an expression: ')' is not expected here"),
        ("'é' == 'è' )", 11, "not an expression: ')' is not expected here"),
        ("draft.num_aux = 3", 14, "not an expression: '= ' is not expected here; write =="),
        ("true and false", 5, "not an expression: 'and' is not expected here; write &&"),
        ("'open", 0, "not an expression: ''open' is not expected here"),
        ("1u == 1u", 1, "contracts do not use 'u' in this way"),
        (".draft.num_aux == 3", 0, "contracts do not use '.' in this way"),
        ("(" * 200, 0, "not an expression: its parts are nested too deeply"),
        ("!" * 5000, 0, f"5000 characters; at most {MAX_LENGTH} are read"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_offset(
    source: str, offset: int, said: str
) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        compile_rule(source)
    assert (caught.value.offset, caught.value.text) == (offset, said)


def test_a_rule_holds_or_does_not() -> None:
    assert compile_rule("size(capture.boundaries) == draft.num_aux").holds(FACTS)
    assert not compile_rule("size(distinct(capture.boundaries)) == draft.num_aux").holds(FACTS)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("draft.aux_width * 2 == 4", "draft.aux_width is null; rule that out in `applies`"),
        (
            "draft.aux_width < draft.hidden_size",
            "draft.aux_width and draft.hidden_size are null; rule that out in `applies`",
        ),
        ("target.hidden_size > 1", "there are no facts 'target'"),
        ("launch.flags['pp-size'] == '1'", "there is no key 'pp-size'"),
        ("capture.boundaries[7] == 1", "index out of bounds: 7"),
        ("draft.num_aux / 0 == 1", "division by zero in CEL expression"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_says_why(source: str, said: str) -> None:
    with pytest.raises(RuleError) as caught:
        compile_rule(source).holds(FACTS)
    assert str(caught.value) == f"rule `{source}` cannot be evaluated: {said}"


def test_a_null_is_neither_true_nor_false() -> None:
    with pytest.raises(RuleError) as caught:
        compile_rule("draft.aux_width").holds(FACTS)
    assert str(caught.value) == "rule `draft.aux_width` gives none, neither true nor false"


def test_a_guard_keeps_a_null_away() -> None:
    assert not compile_rule("draft.aux_width != null && draft.aux_width > 2").holds(FACTS)


def test_every_helper_has_documentation_and_computes_what_it_says() -> None:
    assert all(function.doc for function in FUNCTIONS.values())
    values = {
        "distinct([3, 1, 3])": [3, 1],
        "sorted([3, 1, 2])": [1, 2, 3],
        "first([3, 1, 2], 2)": [3, 1],
        "join([3, 1], '-')": "3-1",
        "string([2, 30])": "[2, 30]",
        "string(null)": "none",
        "string(true)": "true",
        "[3, 1].sorted().first(1)": [3 - 2],
        "size('abc') + int('4') + int(double(5))": 12,
    }
    assert {source: compile_rule(source).value({}) for source in values} == values


def test_a_message_shows_values_as_people_write_them() -> None:
    template = compile_template(
        "{{capture.boundaries}} of {{draft.num_aux}}, {{draft.aux_width}}, {{capture.error}}, "
        "{{capture.enabled}}, {{launch.flags}}, {{subject.name + '}}'}}"
    )
    assert template.render(FACTS) == (
        "[3, 31, 31] of 3, none, 0.01234568, true, {tp-size: 8}, kimi}}"
    )
    assert template.groups == {"capture", "draft", "launch", "subject"}


def test_a_message_about_absent_facts_says_unknown() -> None:
    assert compile_template("n = {{target.num_layers}}").render(FACTS) == "n = unknown"


def test_mistakes_in_a_message_have_offsets_into_the_message() -> None:
    source = "one {{capture.widht}} two {{draft.num_aux + 'a'}}"
    template = compile_template(source)
    assert check_names(template) == [
        (source.index("widht"), "unknown fact 'capture.widht'; did you mean 'width'?")
    ]
    assert check_types(template) == [(source.index("+"), "'+' does not go with int and string")]
    assert named_groups(template) == [(6, "capture"), (28, "draft")]


@pytest.mark.parametrize(
    ("source", "offset", "said"),
    [
        ("a {{draft.num_aux", 2, "'{{' without '}}'; write {{expression}}"),
        ("a {{ 1 + }}", 9, "not an expression: its end is not expected here"),
        ("a {{}}", 4, "not an expression: its end is not expected here"),
    ],
)
def test_a_broken_piece_of_a_message_is_refused_with_its_offset(
    source: str, offset: int, said: str
) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        compile_template(source)
    assert (caught.value.offset, caught.value.text) == (offset, said)


def test_the_command_line_of_the_cel_library_is_not_imported() -> None:
    code = (
        "import sys; from eagle3_contracts.rules import compile_rule; compile_rule('1 < 2')\n"
        "assert 'cel.cel' in sys.modules and not {'cel', 'typer'} & set(sys.modules)\n"
        "import cel; assert cel.compile is sys.modules['cel.cel'].compile"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


ATOMS = st.sampled_from(
    [
        *("1", "2.5", "'a'", "true", "null", "[1, 2]", "['a']", "{'a': 1}", "draft.num_aux", "x"),
        *("draft.layer_ids", "capture.error", "subject.name", "launch.flags", "subject.captures"),
    ]
)


def compounds(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = ["||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"]
    calls = ["size", "int", "double", "string", "distinct", "sorted"]
    macros = ["all", "exists", "exists_one", "filter", "map"]
    build: list[st.SearchStrategy[str]] = [
        st.builds("{} {} {}".format, inner, st.sampled_from(signs), inner),
        st.builds("({})".format, inner),
        st.builds("{}({})".format, st.sampled_from([*calls, "!", "-"]), inner),
        st.builds("{}.{}(x, {})".format, inner, st.sampled_from(macros), inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("{}.{}({})".format, inner, st.sampled_from(["contains", "join"]), inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ]
    return st.one_of(build)


def check_run(source: str) -> None:
    """Evaluate a rule without mistakes; only values, never types, may stop it."""
    said = ""
    try:
        compile_rule(source).value(FACTS)
    except RuleError as error:
        said = str(error)
    harmless = "no key|out of bounds|by zero|overflow|'int' error|'double' error"
    assert not said or re.search(harmless, said), said


@settings(max_examples=500, deadline=None)
@given(source=st.recursive(ATOMS, compounds, max_leaves=4))
def test_a_rule_that_passes_the_check_meets_no_wrong_type_when_it_runs(source: str) -> None:
    rule = compile_rule(source)
    if "null" not in source and not rule.reading.unknown and not rule.reading.mistyped:
        check_run(source)


def bound(over: str, macro: str, body: str) -> str:
    return f"{over}.{macro}(x, {body.replace('1', 'x')})"


Texts = st.SearchStrategy[str]


def right_rules(depth: int) -> tuple[Texts, Texts, Texts]:
    """Return expressions of type int, list of int and bool with the right types all through."""
    if depth == 0:
        lists = st.sampled_from(["[1, 2]", "draft.layer_ids", "[]"])
        truths = st.sampled_from(["true", "subject.captures", "capture.error > 0.5"])
        return st.sampled_from(["1", "2", "draft.num_aux"]), lists, truths
    number, numbers, truth = right_rules(depth - 1)
    return (
        st.one_of(
            st.builds("({} {} {})".format, number, st.sampled_from("+-*/%"), number),
            st.builds("size({})".format, numbers),
            st.builds("{}[{}]".format, numbers, number),
            st.builds("({} ? {} : {})".format, truth, number, number),
        ),
        st.one_of(
            st.builds("{}.{}()".format, numbers, st.sampled_from(["distinct", "sorted"])),
            st.builds("first({}, {})".format, numbers, number),
            st.builds("({} + {})".format, numbers, numbers),
            st.builds(bound, numbers, st.just("map"), number),
            st.builds(bound, numbers, st.just("filter"), truth),
        ),
        st.one_of(
            st.builds("({} {} {})".format, number, st.sampled_from(["==", "<", ">="]), number),
            st.builds("({} in {})".format, number, numbers),
            st.builds("({} {} {})".format, truth, st.sampled_from(["&&", "||"]), truth),
            st.builds("!({})".format, truth),
            st.builds("({} != {})".format, numbers, numbers),
            st.builds(bound, numbers, st.sampled_from(["all", "exists", "exists_one"]), truth),
            st.builds("subject.name.contains(join({}, '-'))".format, numbers),
        ),
    )


@settings(max_examples=300, deadline=None)
@given(source=right_rules(3)[2])
def test_a_rule_with_the_right_types_passes_the_check_and_runs(source: str) -> None:
    assert mistakes(source) == []
    check_run(source)


@settings(max_examples=300, deadline=None)
@given(source=st.text("ab.(){}[]'\"!&|=<>+-1 \n,?:/\\é", max_size=30))
@pytest.mark.parametrize("compiler", [compile_rule, compile_template])
def test_random_text_is_compiled_or_refused(compiler: Callable[[str], Any], source: str) -> None:
    offset = 0
    try:
        compiler(source)
    except RuleSyntaxError as error:
        offset = error.offset
    assert 0 <= offset <= len(source)
