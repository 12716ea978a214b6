//! `reveille setup`: shows what a client's configuration needs, or with `--write` puts it there.

mod clients;
mod edit;

use super::{Common, Done, Failure, show};
use crate::config::Config;
use anyhow::Context;
use clap::Args;
use clients::{Piece, Place, Setup, SetupClient};
use edit::Edit;
use serde_json::json;
use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Args)]
pub struct SetupArgs {
    client: SetupClient,
    /// Change the files, each with a backup beside it; without this they are only shown
    #[arg(long)]
    write: bool,
    /// For this directory instead of everywhere
    #[arg(long)]
    project: bool,
    /// Let the client speak to the server's address instead of starting `reveille mcp`
    #[arg(long)]
    http: bool,
}

pub fn run(common: &Common, args: SetupArgs) -> Done {
    let config = common.load()?;
    let url = match &common.url {
        Some(url) => format!("{}/mcp", url.trim_end_matches('/')),
        None => format!("http://{}/mcp", config.listen),
    };
    let program = program();
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let place = Place {
        program: &program,
        http: args.http.then_some(url.as_str()),
        project: args.project,
        variable: &variable,
        exists: &|path| path.exists(),
    };
    let mut setup = clients::setup(args.client, &place)?;
    setup.pieces.extend(wake(&setup, common.config.clone().unwrap_or_else(Config::default_path)));
    for piece in &setup.pieces {
        if args.write { write(piece)? } else { print(piece)? }
    }
    if let Some(note) = setup.note {
        show::line(note);
    }
    if !args.write {
        show::line("Nothing was changed; add --write to have it done.");
    }
    Ok(ExitCode::SUCCESS)
}

/// The rule that brings a session back when no client is there.
fn wake(setup: &Setup, path: PathBuf) -> Option<Piece> {
    let (name, command) = setup.wake.as_ref()?;
    let fields = json!({"match": format!("{name}*"), "command": command});
    let edits = vec![Edit::Default { path: vec!["wake", name], fields }];
    Some(Piece { path, what: "the wake command (takes effect when the server is started again)", edits })
}

fn print(piece: &Piece) -> Result<(), Failure> {
    show::line(&format!("# {}: {}\n", piece.path.display(), piece.what));
    show::line(&edited(piece, "")?);
    Ok(())
}

fn write(piece: &Piece) -> Result<(), Failure> {
    // A link (dotfiles) stays one: what it points to is changed.
    let path = fs::canonicalize(&piece.path).unwrap_or_else(|_| piece.path.clone());
    let shown = piece.path.display();
    let before = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::Refused(format!("{shown} cannot be read: {error}"))),
    };
    let after = edited(piece, before.as_deref().unwrap_or_default())?;
    if before.as_deref() == Some(after.as_str()) {
        show::line(&format!("{shown}: {} is there already", piece.what));
        return Ok(());
    }
    replace(&path, before.as_deref(), &after).with_context(|| format!("{shown} cannot be written"))?;
    show::line(&format!("{shown}: {} written", piece.what));
    Ok(())
}

fn edited(piece: &Piece, text: &str) -> Result<String, Failure> {
    let toml = piece.path.extension().is_some_and(|extension| extension == "toml");
    let edited = if toml { edit::toml(text, &piece.edits) } else { edit::json(text, &piece.edits) };
    edited.map_err(|error| {
        let path = piece.path.display();
        Failure::Refused(format!("{path} was left as it is: {error:#}. Add by hand what `reveille setup` shows"))
    })
}

/// In one step, with the old text beside it: another program may be reading, and people change their minds.
fn replace(path: &Path, before: Option<&str>, after: &str) -> anyhow::Result<()> {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let new = beside(".reveille-new");
    fs::write(&new, after)?;
    if before.is_some() {
        fs::copy(path, beside(".reveille-backup"))?;
        fs::set_permissions(&new, fs::metadata(path)?.permissions())?;
    }
    fs::rename(&new, path)?;
    Ok(())
}

/// `reveille` if that is what the path finds, else where this program is.
fn program() -> String {
    let own = env::current_exe().and_then(fs::canonicalize).unwrap_or_else(|_| "reveille".into());
    let found = env::var_os("PATH").and_then(|path| {
        env::split_paths(&path).map(|directory| directory.join("reveille")).find(|candidate| candidate.is_file())
    });
    match found.and_then(|found| fs::canonicalize(found).ok()) {
        Some(found) if found == own => "reveille".into(),
        _ => own.to_string_lossy().into_owned(),
    }
}
