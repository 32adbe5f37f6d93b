"""The map from sources to test files is whole, and `make test-change` takes from it what tells most."""

from __future__ import annotations

from change_map import START, TestMap, chosen_tests, exists, is_test_file, lines_in_functions, map_of, modules, updated

HERE = "tests/architecture/test_change_map.py"
MODULE = "scoring/goldspan/scoring/sessions.py"
HELD = TestMap.read()


def test_every_module_has_tests() -> None:
    assert [module for module in modules() if not HELD.tests.get(module)] == [], "make test-map"


def test_every_test_file_and_every_source_exists() -> None:
    files = {*HELD.seconds, *(file for files in HELD.tests.values() for file in files)}
    assert sorted(path for path in {*files, *HELD.tests} if not exists(path)) == [], "make test-map"
    assert sorted(path for path in files if not is_test_file(path)) == []


def note(**lines: list[int]) -> dict[str, object]:
    """What a run saw: of each test file the lines of one module, and as many of another as its name is long."""
    other = {file: {MODULE: executed, HERE: list(range(10 * len(file)))} for file, executed in lines.items()}
    return {"seconds": dict.fromkeys(lines, 0.5), "lines": other, "opened": {}}


def test_the_best_test_executes_many_lines_and_little_else_and_the_next_what_it_left() -> None:
    seen = note(long_test_of_everything=[1, 2, 3, 4], whole=[1, 2, 3], same=[1, 2], rest=[4])
    assert map_of([seen]).tests[MODULE][:2] == ["whole", "rest"]


def test_a_run_of_some_files_replaces_what_the_map_said_of_them() -> None:
    old = TestMap(
        {HERE: 1.0, "tests/gone.py": 1.0}, {MODULE: ["tests/gone.py", "tests/conftest.py"], "gone.py": [HERE]}
    )
    new = updated(old, TestMap({HERE: 2.0}, {MODULE: [HERE]}))
    assert new.seconds == {HERE: 2.0}
    assert new.tests[MODULE] == [HERE, "tests/conftest.py"]
    assert "gone.py" not in new.tests
    assert new.tests["scoring/goldspan/scoring/errors.py"]


def test_changed_tests_come_first_then_the_best_of_each_source_within_the_budget() -> None:
    known = TestMap(
        {"tests/conftest.py": 1.0, "tests/soak.py": 9.0, "tests/quick_run.py": 2.0},
        {MODULE: ["tests/conftest.py", "tests/soak.py"], "README.md": ["tests/quick_run.py"]},
    )
    changed = [MODULE, HERE, "README.md", "tests/soak_of_nothing.py"]
    assert chosen_tests(changed, known, 3 + 3 * START) == ([HERE, "tests/conftest.py", "tests/quick_run.py"], [])
    assert chosen_tests(["no-such-file"], TestMap({}, {}), 1.0)[0] == []


def test_a_module_that_the_map_does_not_know_has_the_tests_that_name_it() -> None:
    assert HERE in chosen_tests(["tests/change_map.py"], TestMap({}, {}), 100.0)[0]


def test_only_lines_inside_functions_count() -> None:
    assert lines_in_functions("x = 1\ndef f():\n    y = 2\n    return y\n") == {3, 4}
