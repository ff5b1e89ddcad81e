"""Completion, in each shell that is here: its own script, sourced by a real shell."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cairn.domain.genesis import DEV_KEYS
from tests.e2e.cli.conftest import User
from tests.support.pace import PATIENCE_S

SHELLS = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]
CASES = {
    "cairn cha": "chain",
    "cairn keys imp": "import",
    "cairn send ali": "alice",
    "cairn watch --fro": "--from-height",
}
"""A line that somebody types, and the word that it is to end with."""

# Each prints, after each line of its input, what the shell offers for it.
OFFERS = {
    "bash": """
        eval "$(cairn completion bash)"
        while read -r line; do
            COMP_WORDS=($line) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _cairn_completion cairn </dev/null
            echo "$line: ${COMPREPLY[@]}"
        done
    """,
    "zsh": """
        autoload -Uz compinit; compinit -u -d "$HOME/.zcompdump"
        eval "$(cairn completion zsh)"
        # What zsh calls to offer words; outside of its line editor there is nobody to offer them to.
        _arguments() { print -r -- "$line: $@" }
        while read -r line; do
            words=(${=line}); CURRENT=${#words}
            _cairn_completion </dev/null
        done
    """,
    "fish": """
        cairn completion fish | source
        while read line
            echo "$line: "(complete --do-complete "$line" </dev/null)
        end
    """,
}
RC_FILES = {"bash": ".bash_completions/cairn.sh", "zsh": ".zfunc/_cairn", "fish": ".config/fish/completions/cairn.fish"}


@pytest.fixture
def person(tmp_path: Path) -> User:
    """With a key, and no node."""
    user = User(tmp_path, "http://127.0.0.1:1")
    user.add_key("alice", DEV_KEYS[5][1])
    return user


def printed(shell: str, script: str, user: User, stdin: str = "") -> str:
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    run = [shell, *flags, "-c", script]
    return subprocess.check_output(run, input=stdin, env=user.shell_env(), text=True, timeout=PATIENCE_S)


def test_there_is_a_shell_to_test_in() -> None:
    assert "bash" in SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(shell: str, person: User) -> None:
    answers = printed(shell, OFFERS[shell], person, "".join(f"{line}\n" for line in CASES))
    for line, word in CASES.items():
        [offer] = [answer for answer in answers.splitlines() if answer.startswith(f"{line}: ")]
        assert word in offer.removeprefix(line)


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_installs_itself(shell: str, person: User) -> None:
    told = printed(shell, f"cairn completion {shell} --install", person)
    assert told == f"Installed {person.home / RC_FILES[shell]}, for the shells that you start from now on.\n"
    assert "cairn" in (person.home / RC_FILES[shell]).read_text()


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef cairn"), ("fish", "--command cairn")]
)
def test_the_script_is_of_the_shell_that_is_named(shell: str, mark: str, person: User) -> None:
    """Whichever shell asks, and also those that are not here."""
    assert mark in person.invoke("completion", shell).stdout


def test_a_shell_that_is_not_known_is_refused(person: User) -> None:
    result = person.invoke("completion", "tcsh")
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_tab_in_a_real_terminal(person: User) -> None:
    with person.in_shell(["bash", "--norc", "--noprofile", "-i"]) as terminal:
        terminal.enter('eval "$(cairn completion bash)"; echo rea""dy\n')
        terminal.expect("ready")
        terminal.enter("cairn keys sign ali\t")
        terminal.expect("cairn keys sign alice ")
