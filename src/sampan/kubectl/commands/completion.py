"""`kubectl completion`: scripts with which shells complete commands, flags and names of objects.

A script passes the words of the command line to the hidden command `__complete`, which prints one candidate in each
line.
"""

from __future__ import annotations

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.shared_flags import WordOptions
from sampan.kubectl.errors import UsageError

_BASH = """\
# bash completion for sampan kubectl
_sampan_kubectl() {
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}") line
    [[ ${words[0]} == kubectl ]] && words=("${words[@]:1}")
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(sampan kubectl __complete "${words[@]}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -o default -F _sampan_kubectl kubectl
_sampan_program() {
    [[ ${COMP_WORDS[1]} == kubectl ]] && _sampan_kubectl
}
complete -o default -F _sampan_program sampan
"""
_ZSH = """\
#compdef kubectl
# zsh completion for sampan kubectl
_sampan_kubectl() {
    local -a candidates
    local -a arguments=("${(@)words[2,CURRENT]}")
    [[ ${arguments[1]} == kubectl ]] && arguments=("${(@)arguments[2,-1]}")
    candidates=("${(@f)$(sampan kubectl __complete "${arguments[@]}" 2>/dev/null)}")
    if (( ${#candidates} )) && [[ -n ${candidates[1]} ]]; then
        compadd -- "${candidates[@]}"
    else
        _files
    fi
}
compdef _sampan_kubectl kubectl
"""
_FISH = """\
# fish completion for sampan kubectl
function __sampan_kubectl
    set -l words (commandline -opc) (commandline -ct)
    set -e words[1]
    test "$words[1]" = kubectl; and set -e words[1]
    sampan kubectl __complete $words 2>/dev/null
end
complete -c kubectl -f -a '(__sampan_kubectl)'
complete -c sampan -n '__fish_seen_subcommand_from kubectl' -f -a '(__sampan_kubectl)'
"""
_POWERSHELL = """\
# powershell completion for sampan kubectl
Register-ArgumentCompleter -Native -CommandName 'kubectl' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    if ($wordToComplete -eq '') { $words += '' }
    sampan kubectl __complete @words 2>$null | ForEach-Object {
        [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
    }
}
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL}


@KubectlCommand.define("completion", WordOptions)
def command(factory: Factory, options: WordOptions) -> None:
    """Print the completion script for a shell: bash, zsh, fish or powershell."""
    if not options.words:
        raise UsageError("Shell not specified.")
    if len(options.words) > 1:
        raise UsageError("Too many arguments. Expected only the shell type.")
    if options.words[0] not in _SCRIPTS:
        raise UsageError(f"Unsupported shell type {quote_text(options.words[0])}.")
    click.echo(_SCRIPTS[options.words[0]], nl=False)
