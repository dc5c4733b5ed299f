"""`penstock completion`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from penstock.cli import whole_app
from penstock.cli.formatting import say
from penstock.cli.options import Flag
from penstock.core.errors import ConfigurationError

_PLACES: Final = {
    "bash": ".local/share/bash-completion/completions/penstock",
    "zsh": ".zsh/completions/_penstock",
    "fish": ".config/fish/completions/penstock.fish",
}
"""Where each shell looks for completions of a user, from the home folder."""

_AFTERWARDS: Final = {
    "bash": "Open a new shell. Without the package bash-completion, write this into ~/.bashrc: "
    "source {file}",
    "zsh": "Write this into ~/.zshrc, before compinit, and open a new shell: "
    "fpath=(~/.zsh/completions $fpath); autoload -Uz compinit; compinit",
    "fish": "It works in every new shell.",
}

_ZSH_END: Final = """
if [[ "$funcstack[1]" == "_penstock" ]]; then
  _penstock "$@"
else
  compdef _penstock penstock
fi
"""


def completion(shell: Literal["bash", "zsh", "fish"], /, *, install: Flag = False) -> None:
    """Print a script by which a shell completes commands of penstock, or install it.

    It completes verbs, options and files, and also streams, keys, questions and columns: from the
    store, pipeline or file that the command line names. It reads public names only, and asks no
    database.

    For example:

    * penstock completion bash --install

    * source <(penstock completion bash)

    * penstock completion fish | source

    Parameters
    ----------
    shell
        The shell: bash, zsh or fish.
    install
        Write the script to the folder of the user in which the shell looks for completions.
    """
    script = _script(shell)
    if not install:
        print(script)
        return
    file = Path.home() / _PLACES[shell]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written: {error.strerror}. Write the script elsewhere: penstock "
            f"completion {shell} > FILE."
        ) from None
    say(f"Wrote {file}.")
    say(_AFTERWARDS[shell].format(file=file))


def _script(shell: Literal["bash", "zsh", "fish"]) -> str:
    """The script of Cyclopts, with completion of files and of names with blanks."""
    text = whole_app().generate_completion(shell=shell)
    if shell == "bash":  # a word may be escaped or quoted already; files where nothing else fits
        text = text.replace(
            """[[ "$_x" == "${cur}"* ]] && { printf -v _q '%q' "$_x"; COMPREPLY+=("$_q"); }""",
            """printf -v _q '%q' "$_x"
          case "$cur" in
            [\\"\\']*) [[ "$_x" == "${cur:1}"* ]] && COMPREPLY+=("$_x") ;;
            *) [[ "$_x" == "$cur"* || "$_q" == "$cur"* ]] && COMPREPLY+=("$_q") ;;
          esac""",
        )
        text = text.replace("complete -F", "complete -o bashdefault -o default -F")
    if shell == "zsh":  # an argument without names of its own is a file; it may be sourced, too
        text = text.replace("_cyclopts_penstock", "_penstock") + _ZSH_END
        text = re.sub(r"'(\d+:(?:[^:'\\]|\\.)+)'", r"'\1:_files'", text)
    return text
