"""``maxmargin completion``: what makes shells complete commands, options and their values."""

from __future__ import annotations

import argparse

from maxmargin.cli.arguments import parser
from maxmargin.cli.output import SUCCESS, write

SHELLS = ("bash", "zsh", "fish")

BASH = """\
_maxmargin() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case "$command $before" in
{values}
    esac
    case "$command" in
{options}
    esac
}}
complete -o default -F _maxmargin maxmargin
"""


def completion(arguments: argparse.Namespace) -> int:
    """Write the script of a shell."""
    commands = _commands(parser())
    write(_fish(commands) if arguments.shell == "fish" else _bash(commands, arguments.shell == "zsh"), needed=True)
    return SUCCESS


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next(dict(action.choices or {}) for action in parser._actions if action.dest == "command")


def _actions(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in command._actions if action.help != argparse.SUPPRESS]


def _bash(commands: dict[str, argparse.ArgumentParser], by_zsh: bool) -> str:
    """For bash, and for zsh, which understands it."""
    values, options = [], []
    for name, command in commands.items():
        words = [word for action in _actions(command) for word in action.option_strings]
        listed = f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word"))'
        options.append(f'        {name}) case "$word" in -*) {listed} ;; esac ;;')
        for action in _actions(command):
            if action.choices and action.option_strings:
                patterns = "|".join(f'"{name} {word}"' for word in action.option_strings)
                chosen = " ".join(map(str, action.choices))
                values.append(f'        {patterns}) COMPREPLY=($(compgen -W "{chosen}" -- "$word")); return ;;')
    script = BASH.format(commands=" ".join(commands), values="\n".join(values), options="\n".join(options))
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if by_zsh else script


def _fish(commands: dict[str, argparse.ArgumentParser]) -> str:
    lines = []
    for name, command in commands.items():
        lines.append(f"complete -c maxmargin -n __fish_use_subcommand -a {name} -d {_quoted(command.description)}")
        for action in _actions(command):
            words = [f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in action.option_strings]
            if not words:
                continue
            choices = f" -x -a {_quoted(' '.join(map(str, action.choices)))}" if action.choices else ""
            needs = " -r" if action.nargs != 0 and not choices else ""
            told = _quoted((action.help or "").replace("%%", "%"))
            condition = f"-n '__fish_seen_subcommand_from {name}'"
            lines.append(f"complete -c maxmargin {condition} {' '.join(words)}{choices}{needs} -d {told}")
    return "\n".join(lines) + "\n"


def _quoted(text: str | None) -> str:
    return "'" + (text or "").replace("\\", "\\\\").replace("'", "\\'") + "'"
