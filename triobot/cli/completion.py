"""``triobot completion``: a script that has a shell complete what is typed behind ``triobot``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from . import COMMANDS, CommandModule, CommandParser

DETAILS: Final = """\
Prints a script that the shell reads at its start. It completes the commands, actions and options of this
version. Everything else is completed as a file's name.

install:
  bash    triobot completion bash > ~/.local/share/bash-completion/completions/triobot
  zsh     triobot completion zsh > "${fpath[1]}/_triobot"
  fish    triobot completion fish > ~/.config/fish/completions/triobot.fish
"""

Words: TypeAlias = Mapping[str, str]
"""What may come next, with what it does."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("shell", choices=_SCRIPTS, metavar="SHELL", help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    write = _SCRIPTS[arguments.shell]
    print("\n".join(write(_paths())))


def _paths() -> Mapping[str, Words]:
    """Return what may come behind each path, such as ``store backup``; behind nothing come the commands."""
    found: dict[str, Words] = {"": {**COMMANDS, "--help": "show help", "--version": "show the version"}}
    for name in COMMANDS:
        parser = CommandParser(prog=name, allow_abbrev=False)
        command = cast("CommandModule", import_module(f".{name.replace('-', '_')}", __package__))
        command.declare(parser)
        found.update(_words(name, parser))
    return found


def _words(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, Words]]:
    words: dict[str, str] = {}
    # argparse has no other way to be asked what it reads.
    for action in cast("Any", parser)._actions:
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            for choice in cast("Any", action)._choices_actions:
                words[choice.dest] = choice.help
            actions: Mapping[str, argparse.ArgumentParser] = cast("Any", action.choices)  # pyright: ignore[reportUnknownMemberType]
            for name, below in actions.items():
                yield from _words(f"{path} {name}", below)
        elif action.option_strings:
            words[action.option_strings[-1]] = (action.help or "").replace("%%", "%")
        elif action.choices:
            words.update(dict.fromkeys(map(str, action.choices), ""))
    yield path, words


def _bash(paths: Mapping[str, Words]) -> Iterator[str]:
    yield "_triobot() {"
    yield '    local word place="" words="" current="${COMP_WORDS[COMP_CWORD]}"'
    yield '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield from _walk(paths)
    yield "    done"
    yield '    case "$place" in'
    for path, words in paths.items():
        yield f'        "{path}") words="{" ".join(words)}" ;;'
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    yield "complete -o default -F _triobot triobot"


def _zsh(paths: Mapping[str, Words]) -> Iterator[str]:
    yield "#compdef triobot"
    yield "_triobot() {"
    yield '    local word place=""'
    yield "    local -a found"
    yield '    for word in "${(@)words[2,CURRENT-1]}"; do'
    yield from _walk(paths)
    yield "    done"
    yield '    case "$place" in'
    for path, words in paths.items():
        told = " ".join(_quoted(f"{word.replace(':', '')}:{what}") for word, what in words.items())
        yield f'        "{path}") found=({told}) ;;'
    yield "    esac"
    yield "    _describe triobot found"
    yield "    _files"
    yield "}"
    yield "compdef _triobot triobot"


def _fish(paths: Mapping[str, Words]) -> Iterator[str]:
    yield "function __triobot_path"
    yield '    set -l path ""'
    yield "    for word in (commandline -opc)[2..-1]"
    yield '        set -l longer (string trim "$path $word")'
    known = " ".join(_quoted(path) for path in paths if path)
    yield f"        contains -- $longer {known}; and set path $longer"
    yield "    end"
    yield '    test "$path" = "$argv"'
    yield "end"
    for path, words in paths.items():
        for word, what in words.items():
            kind = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            at = _quoted(f'__triobot_path "{path}"')
            yield f"complete -c triobot -n {at} {kind} -d {_quoted(what)}"


def _walk(paths: Mapping[str, Words]) -> Iterator[str]:
    """Yield the lines that find out, word by word, behind which command and action one is."""
    known = "|".join(f'"{path}"' for path in paths if path)
    # "path" would be the search path in zsh.
    behind = '"${place:+$place }$word"'
    yield f"        case {behind} in {known}) place={behind} ;; esac"


def _quoted(text: str) -> str:
    """Quote for any of the shells, none of which reads on behind the first line of a help."""
    return "'" + text.replace("\n", " ").replace("'", "’") + "'"


_SCRIPTS: Final[Mapping[str, Callable[[Mapping[str, Words]], Iterator[str]]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
