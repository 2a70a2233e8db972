"""`aimwise completion`: a script that completes commands and options in a shell, made from the parser itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """examples:
  source <(aimwise completion bash)                                          in ~/.bashrc
  source <(aimwise completion zsh)                                           in ~/.zshrc, after compinit
  aimwise completion fish > ~/.config/fish/completions/aimwise.fish"""
BASH = """_aimwise() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" path="" word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case " @NAMES@ " in *" $path$word "*) path="$path$word/" ;; esac
  done
  case "$path:$previous" in
@CHOICES@
  esac
  case "$path" in
@OPTIONS@
  esac
}
complete -o default -F _aimwise aimwise
"""


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in your shell",
        description="Prints a script for your shell.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("shell", choices=SHELLS, help="which shell")
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from aimwise.cli import parser

    found = list(walked(parser(), ()))
    if options.shell == "fish":
        sys.stdout.write("".join(line + "\n" for line in fish(found)))
        return 0
    start = "autoload -U +X bashcompinit && bashcompinit\n" if options.shell == "zsh" else ""
    sys.stdout.write(start + bash(found))
    return 0


def walked(made: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every parser with the commands that lead to it."""
    yield path, made
    for name, inner in commands_of(made).items():
        yield from walked(inner, (*path, name))


def commands_of(made: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser."""
    for action in made._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def words_of(made: argparse.ArgumentParser) -> list[str]:
    """All that may be typed after a command: its own commands, options, and choices without an option."""
    words = list(commands_of(made))
    for action in made._actions:
        words += action.option_strings
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
            words += [str(one) for one in action.choices or ()]
    return words


def bash(found: list[tuple[tuple[str, ...], argparse.ArgumentParser]]) -> str:
    """A script for bash, which zsh can read too."""
    names = ["/".join(path) for path, _ in found if path]
    choices, options = [], []
    for path, made in found:
        here = "".join(f"{name}/" for name in path)
        for action in made._actions:
            if action.option_strings and action.choices:
                said = " ".join(map(str, action.choices))
                where = "|".join(f"{here}:{option}" for option in action.option_strings)
                choices.append(f"""    {where}) COMPREPLY=($(compgen -W "{said}" -- "$current")); return ;;""")
        options.append(f"""    "{here}") COMPREPLY=($(compgen -W "{" ".join(words_of(made))}" -- "$current")) ;;""")
    script = BASH.replace("@NAMES@", " ".join(names))
    return script.replace("@CHOICES@", "\n".join(choices)).replace("@OPTIONS@", "\n".join(options))


def fish(found: list[tuple[tuple[str, ...], argparse.ArgumentParser]]) -> Iterator[str]:
    """The lines of a script for fish."""
    top = " ".join(commands_of(found[0][1]))
    for path, made in found:
        seen = f"not __fish_seen_subcommand_from {top}" if not path else f"__fish_seen_subcommand_from {path[-1]}"
        for action in made._actions:
            if isinstance(action, argparse._SubParsersAction):
                for choice in action._choices_actions:
                    yield f"complete -c aimwise -f -n '{seen}' -a {choice.dest} -d {quoted(choice.help)}"
            elif action.option_strings:
                long = action.option_strings[-1].removeprefix("--")
                takes = "" if action.nargs == 0 else " -r"
                given = f" -f -a '{' '.join(map(str, action.choices))}'" if action.choices else ""
                yield f"complete -c aimwise -n '{seen}' -l {long}{takes}{given} -d {quoted(action.help)}"
            elif action.choices:
                yield f"complete -c aimwise -f -n '{seen}' -a '{' '.join(map(str, action.choices))}'"


def quoted(text: str | None) -> str:
    """A line of help as fish reads it."""
    said = (text or "").replace("%(default)s", "the default").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{said}'"
