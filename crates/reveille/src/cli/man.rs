//! `reveille man`: the manual, made from what the commands say of themselves.

use super::{Cli, Done, Failure};
use clap::{Args, CommandFactory};
use std::{fs, io::Write, path::PathBuf, process::ExitCode};

#[derive(Args)]
pub struct ManArgs {
    /// Write the pages of all commands into this directory, instead of the first one to the output
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: ManArgs) -> Done {
    match args.dir {
        Some(dir) => {
            fs::create_dir_all(&dir)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), &dir))
                .map_err(|error| Failure::Refused(format!("{}: {error}", dir.display())))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            // The reader may be gone (`| head`).
            let _ = std::io::stdout().write_all(&page);
        }
    }
    Ok(ExitCode::SUCCESS)
}
