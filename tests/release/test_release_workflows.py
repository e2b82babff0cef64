"""The workflow files are what their forges read, and call what is there; a tag waits until all is ready."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
GITHUB = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GITLAB = ROOT / ".gitlab-ci.yml"
FILES = [*GITHUB, GITLAB]
NAMED = re.compile(r"(?<![\w/])(\.ci/\w+|tests/[\w/.]+)")


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_its_forge_can_read_it(path: Path) -> None:
    """By the schema of each forge that comes with the checker."""
    schema = (
        ["vendor.gitlab-ci", "--data-transform", "gitlab-ci"]
        if path == GITLAB
        else ["vendor.github-workflows"]
    )
    ran = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", *schema, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_it_calls_is_there(path: Path) -> None:
    named = set(NAMED.findall(path.read_text(encoding="utf-8")))
    assert [one for one in named if not (ROOT / one).exists()] == []
    assert [one for one in named if one.startswith(".ci/") and not os.access(ROOT / one, os.X_OK)] == []


def test_both_forges_try_the_same_versions() -> None:
    """Each Python that the metadata names, and the next one."""
    there = read(ROOT / ".github/workflows/checks.yml")["jobs"]["versions"]["strategy"]["matrix"]
    (here,) = read(GITLAB)["versions"]["parallel"]["matrix"]
    assert (here["PYTHON"], here["VERSIONS"]) == (there["python"], there["versions"])

    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "classifiers"
    ]
    named = [one.rpartition(" ")[2] for one in classifiers if re.fullmatch(r"Programming .* :: 3\.\d+", one)]
    assert there["python"][: len(named)] == named
    assert there["versions"] == ["lowest", "newest"]


def test_only_publishing_may_say_who_it_is() -> None:
    """No step that runs code of others holds what an index trusts, and there is no password to be stolen."""
    for path in GITHUB:
        assert read(path)["permissions"] == {"contents": "read"}
        assert "secrets." not in path.read_text(encoding="utf-8")
        assert "pull_request_target" not in path.read_text(encoding="utf-8")
    jobs = {(path.name, name): job for path in GITHUB for name, job in read(path)["jobs"].items()}
    allowed = [at for at, job in jobs.items() if "permissions" in job]
    assert allowed == [("release.yml", "publish"), ("release.yml", "files")]
    assert jobs["release.yml", "files"]["permissions"] == {"contents": "write"}
    assert jobs["release.yml", "files"]["needs"] == "publish"
    publish = jobs["release.yml", "publish"]
    assert publish["permissions"] == {"id-token": "write", "attestations": "write"}
    assert set(publish["needs"]) == {"checks", "build"}

    pipeline = read(GITLAB)
    assert [name for name, job in pipeline.items() if "id_tokens" in job] == ["publish"]
    needed = {one if isinstance(one, str) else one["job"] for one in pipeline["publish"]["needs"]}
    checks = {name for name, job in pipeline.items() if isinstance(job, dict) and job.get("stage") == "check"}
    assert needed == checks | {"build"}


def test_each_fragment_is_of_a_kind() -> None:
    towncrier = settings()["tool"]["towncrier"]
    kinds = [kind["directory"] for kind in towncrier["type"]]
    names = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert [one for one in names if not re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(kinds)})\.md", one)] == []

    told = (ROOT / "changes" / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE) == kinds
    assert towncrier["start_string"] in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a tag is judged by, ready to be published."""
    (tmp_path / "triobot" / "base").mkdir(parents=True)
    (tmp_path / "changes").mkdir()
    recorded = tmp_path / "tests" / "journals" / "recorded"
    recorded.mkdir(parents=True)
    (recorded / "1.2.0.txt").touch()
    (tmp_path / "triobot/base/version.py").write_text('__version__ = "1.2.0"\n')
    for name in ("changes/README.md", "pyproject.toml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    filled = 'address = "https://forge.test/a"'
    written = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    written = re.sub(r'^address = ".*?"', filled, written, flags=re.MULTILINE)
    (tmp_path / "pyproject.toml").write_text(written, encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1.2.0 (2026-12-01)\n\n- It flies.\n\n## 0.0.1 (2026-01-01)\n\n- It crawls.\n"
    )
    return tmp_path


def judged(project: Path, tag: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "tag"), tag]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@pytest.mark.processes
def test_a_tag_that_is_ready_says_its_notes(project: Path) -> None:
    said = judged(project, "v1.2.0")
    assert (said.returncode, said.stdout, said.stderr) == (0, "- It flies.\n", "")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("path", "old", "new", "what"),
    [
        ("triobot/base/version.py", "1.2.0", "9.9.9", "the version is 9.9.9"),
        ("pyproject.toml", "https://forge.test/a", "", "no address of the project yet"),
        ("CHANGELOG.md", " (2026-12-01)", "", "has no section"),
        ("CHANGELOG.md", "\n- It crawls", "\n## Unreleased\n\n- It crawls", "Unreleased has no version"),
        ("changes/README.md", "", "", "changes/+new.fixed.md: is not in CHANGELOG.md yet"),
        ("tests/journals/recorded/1.2.0.txt", "", "", "has no journals of this version"),
    ],
)
def test_a_tag_that_is_not_is_refused(project: Path, path: str, old: str, new: str, what: str) -> None:
    file = project / path
    if file.suffix == ".txt":
        file.unlink()
    elif old:
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    else:
        (project / "changes" / "+new.fixed.md").write_text("It falls no more.\n")

    said = judged(project, "v1.2.0")

    assert said.returncode == 1
    assert what in said.stderr
    assert len(said.stderr.splitlines()) == 2


@pytest.mark.processes
def test_a_candidate_s_notes_are_those_of_the_version_to_come(project: Path) -> None:
    (project / "triobot/base/version.py").write_text('__version__ = "9.9.9rc1"\n')
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- It hovers.\n")
    (project / "tests/journals/recorded/9.9.9rc1.txt").touch()

    said = judged(project, "v9.9.9rc1")

    assert (said.returncode, said.stdout, said.stderr) == (0, "- It hovers.\n", "")
