"""What a release says of itself, and the files of the forge, which only run what everybody can run."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import cairn
from tools.release import CLIENT, CLIENT_PARTS, ReleaseError, changes, next_steps, statement, version

ROOT = Path(__file__).parents[2]
WORKFLOWS = {path.name: path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
CHANGELOG = (
    "# Changelog\n\n## 0.3.0 (unreleased)\n\n- Soon.\n\n"
    "## 0.2.0 (2027-01-02)\n\nMore.\n\n- It flies.\n\n## 0.1.0\n- First.\n"
)


def project(directory: Path) -> dict[str, list[str]]:
    described: dict[str, list[str]] = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    return described


def test_the_version_is_said_in_one_place() -> None:
    assert version() == cairn.__version__
    assert [project(directory)["dynamic"] for directory in (ROOT, CLIENT)] == [["version"]] * 2


def test_the_client_asks_for_a_part_of_what_the_node_asks_for() -> None:
    assert set(project(CLIENT)["dependencies"]) < set(project(ROOT)["dependencies"])
    assert project(CLIENT)["classifiers"] == project(ROOT)["classifiers"]
    assert [part for part in CLIENT_PARTS if not (ROOT / "src" / "cairn" / part).exists()] == []


@pytest.mark.parametrize(
    ("wanted", "date", "text"),
    [
        ("0.3.0", "unreleased", "- Soon.\n"),
        ("0.2.0", "2027-01-02", "More.\n\n- It flies.\n"),
        ("0.1.0", "", "- First.\n"),
    ],
)
def test_the_changes_of_a_version_are_its_section(wanted: str, date: str, text: str) -> None:
    assert changes(CHANGELOG, wanted) == (date, text)


def test_a_version_without_a_section_is_not_released() -> None:
    with pytest.raises(ReleaseError, match=r"'## 0\.4\.0'"):
        changes(CHANGELOG, "0.4.0")


def test_the_changelog_has_a_section_of_the_version_that_comes_next() -> None:
    _, notes = changes((ROOT / "CHANGELOG.md").read_text(), version())
    assert len(notes) > 100


def test_after_a_rehearsal_a_person_dates_the_changes_tags_and_pushes() -> None:
    tagged = ["git tag --sign --message 'Cairn 0.3.0' v0.3.0", "git push origin v0.3.0"]
    assert next_steps("0.3.0", "2027-01-02") == tagged
    assert next_steps("0.3.0", "unreleased") == ["date the section 0.3.0 of CHANGELOG.md, and commit", *tagged]


def test_the_statement_names_the_files_the_commit_and_what_was_pinned(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"abc")
    said = statement([tmp_path / "a.whl"], "f" * 40, "urn:me")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert said["subject"] == [{"name": "a.whl", "digest": {"sha256": digest}}]
    assert "'gitCommit': '" + "f" * 40 in str(said["predicate"])
    assert "requirements/runtime.txt" in str(said["predicate"])


def test_a_release_fetches_its_tag_once() -> None:
    """A push of a tag fetches it already, and actions/checkout fails when asked for it again."""
    assert "fetch-tags" not in WORKFLOWS["release.yml"]


def test_the_node_is_described_by_the_first_sentence_of_the_readme() -> None:
    [sentence] = re.findall(r"\A# Cairn\n\n(.*?\.) ", (ROOT / "README.md").read_text())
    assert f'\ndescription = "{sentence}"\n' in (ROOT / "pyproject.toml").read_text()
    assert f"\nsite_description: {sentence}\n" in (ROOT / "mkdocs.yml").read_text()


def test_the_forge_runs_only_make_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    runs = [line for text in WORKFLOWS.values() for line in re.findall(r"^\s*(?:- )?run:(.*)$", text, re.MULTILINE)]
    assert runs
    assert [
        line for line in runs if not (made := re.fullmatch(r" make ([a-z-]+)", line)) or made[1] not in targets
    ] == []


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_an_action_is_pinned_to_a_commit_and_says_which_version_that_is(name: str) -> None:
    used = re.findall(r"^.*\buses:\s*(?!\./)(.*)$", WORKFLOWS[name], re.MULTILINE)
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action)] == []


def test_a_rehearsal_publishes_and_signs_nothing() -> None:
    jobs = yaml.safe_load(WORKFLOWS["release.yml"])["jobs"]
    assert jobs.pop("build")["permissions"] == {"contents": "read"}
    assert {name: job["if"] for name, job in jobs.items()} == dict.fromkeys(jobs, "github.event_name == 'push'")


def test_what_is_published_is_signed_first_and_approved_by_a_person() -> None:
    jobs = yaml.safe_load(WORKFLOWS["release.yml"])["jobs"]
    assert [jobs[name]["needs"] for name in ("publish", "image")] == ["sign", "sign"]
    assert jobs["publish"]["environment"] == "${{ matrix.name }}"
    assert jobs["publish"]["strategy"]["matrix"]["name"] == ["cairn-node", "cairn-node-client"]
    assert jobs["image"]["environment"] == "image"
    identified = {name for name, job in jobs.items() if "id-token" in job["permissions"]}
    assert identified == {"sign", "publish", "image"}


def test_publishing_needs_no_secret_of_ours() -> None:
    secrets = {secret for text in WORKFLOWS.values() for secret in re.findall(r"secrets\.(\w+)", text)}
    assert secrets <= {"GITHUB_TOKEN"}
