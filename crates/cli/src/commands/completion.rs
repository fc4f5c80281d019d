//! `rutter completion`.

use std::io::Write;

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::lab;
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Print a script that completes commands and options in a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter completion bash > /etc/bash_completion.d/rutter
  rutter completion zsh > ~/.zfunc/_rutter
  rutter completion fish > ~/.config/fish/completions/rutter.fish")]
pub struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let mut script = Vec::new(); // the generator panics where its writer fails
    let mut rutter = with_lab(crate::Rutter::command(), lab::words());
    clap_complete::generate(args.shell, &mut rutter, "rutter", &mut script);
    if args.shell == Shell::Fish {
        positionals(&rutter, &mut Vec::new(), &mut script)?;
    }
    if cx.json {
        let script = String::from_utf8_lossy(&script);
        cx.print_json(&serde_json::json!({ "script": script }))?;
    } else {
        cx.out.write_all(&script)?;
    }
    Ok(Status::Success)
}

/// `rutter`, with the lab's `words` as the values of the arguments behind `lab`.
fn with_lab(rutter: Command, words: Vec<String>) -> Command {
    if words.is_empty() {
        return rutter;
    }
    let values = PossibleValuesParser::new(words);
    rutter.mut_subcommand("lab", |lab| lab.mut_arg("arguments", |arg| arg.value_parser(values)))
}

/// The values that clap's script for fish leaves out: those of arguments that are not options.
/// For those of `command`, whose name and its parents' `path` holds, and of all
/// below it.
fn positionals<'c>(
    command: &'c Command,
    path: &mut Vec<&'c str>,
    script: &mut Vec<u8>,
) -> std::io::Result<()> {
    for argument in command.get_positionals() {
        let values = argument.get_possible_values();
        let values: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        let [first, rest @ ..] = &path[..] else { continue };
        if values.is_empty() {
            continue;
        }
        let mut seen = format!("__fish_rutter_using_subcommand {first}");
        for command in rest {
            seen.push_str(&format!("; and __fish_seen_subcommand_from {command}"));
        }
        writeln!(script, "complete -c rutter -n \"{seen}\" -f -a \"{}\"", values.join(" "))?;
    }
    for below in command.get_subcommands() {
        path.push(below.get_name());
        positionals(below, path, script)?;
        path.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_complete_what_the_lab_knows() {
        let words = || ["list", "dxr/fig3"].map(str::to_owned).to_vec();
        for shell in [Shell::Bash, Shell::Zsh] {
            let mut script = Vec::new();
            let mut rutter = with_lab(crate::Rutter::command(), words());
            clap_complete::generate(shell, &mut rutter, "rutter", &mut script);
            assert!(String::from_utf8(script).unwrap().contains("list dxr/fig3"), "{shell}");
        }
        let (mut rutter, mut script) = (with_lab(crate::Rutter::command(), words()), Vec::new());
        rutter.build();
        positionals(&rutter, &mut Vec::new(), &mut script).unwrap();
        let line = "-n \"__fish_rutter_using_subcommand lab\" -f -a \"list dxr/fig3\"";
        assert!(String::from_utf8(script).unwrap().contains(line));
    }

    #[test]
    fn what_the_daemon_starts_for_itself_is_no_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::Rutter::command(), "rutter", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("grantor") && !script.contains("policy-cell"), "{shell}");
        }
        let hidden: Vec<_> = crate::Rutter::command()
            .get_subcommands()
            .filter(|command| command.is_hide_set())
            .map(|command| command.get_name().to_owned())
            .collect();
        assert!(hidden.is_empty(), "completions list them: {hidden:?}");
    }

    #[test]
    fn fish_completes_engines_and_shells() {
        let mut rutter = crate::Rutter::command();
        rutter.build();
        let mut script = Vec::new();
        positionals(&rutter, &mut Vec::new(), &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        let set = "complete -c rutter -n \"__fish_rutter_using_subcommand fib; and \
                   __fish_seen_subcommand_from engine; and __fish_seen_subcommand_from set\" \
                   -f -a \"";
        let engines = script.lines().find_map(|line| line.strip_prefix(set)).expect(&script);
        assert!(engines.split([' ', '"']).any(|name| name == "rutter4"), "{engines}");
        let shells = "using_subcommand completion\" -f -a \"bash elvish fish powershell zsh\"";
        assert!(script.contains(shells), "{script}");
    }
}
