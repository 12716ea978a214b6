//! `reveille setup`: shows what a client's configuration needs, or with `--write` puts it there.

mod clients;
mod edit;
mod state;

pub use state::{Knows, states};

use super::{Common, Done, Failure, show};
use crate::config::Config;
use anyhow::Context;
use clap::Args;
use clients::{Piece, Place, Setup, SetupClient, Wake};
use edit::Edit;
use serde_json::json;
use std::{
    env,
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
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
    let url = args.http.then(|| address(common, &config)).transpose()?.map(|url| format!("{url}/mcp"));
    let (program, options) = (program(), options(common)?);
    let place = Place {
        program: &program,
        options: &options,
        http: url.as_deref(),
        project: args.project,
        variable: &variable,
        exists: &|path| path.exists(),
    };
    let mut setup = clients::setup(args.client, &place)?;
    setup.pieces.extend(wake(&setup, common.config.clone().unwrap_or_else(Config::default_path)));
    let wakes = setup.wake.is_some();
    for piece in &setup.pieces {
        if args.write { write(piece)? } else { print(piece)? }
    }
    if let Some(note) = setup.note {
        show::line(note);
    }
    if wakes {
        show::line(PERMISSIONS);
    }
    if args.http {
        show::line(OVER_HTTP);
        if config.token.is_some() {
            show::line(LOCKED);
        }
    }
    if !args.write {
        show::line("Nothing was changed; add --write to have it done.");
    }
    Ok(ExitCode::SUCCESS)
}

const PERMISSIONS: &str = "What a woken agent may do without asking is up to you: add the client's own permission flags to the \
    wake command.";
const OVER_HTTP: &str = "No wake command is set up over HTTP, where nothing shows that a client is still open. For that, leave out \
    --http.";
const LOCKED: &str = "The server wants its token, which is not written into other programs' files: have the client send the header \
    `Authorization: Bearer TOKEN`.";

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where the server is.
fn address(common: &Common, config: &Config) -> Result<String, Failure> {
    if let Some(url) = &common.url {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    if config.listen.port() != 0 {
        return Ok(format!("http://{}", config.listen));
    }
    let running = fs::read_to_string(config.address_file()).unwrap_or_default();
    if running.trim().is_empty() {
        let why =
            "`listen` has port 0, so that the address is known only while the server runs: start it, or choose a port";
        return Err(Failure::Refused(why.into()));
    }
    show::line("`listen` has port 0: the address written here is good only until the server is started again.");
    Ok(running.trim().trim_end_matches('/').to_owned())
}

/// What was said in this call and has to be said in every other, from wherever it is made.
fn options(common: &Common) -> Result<Vec<String>, Failure> {
    let mut options = Vec::new();
    for (name, path) in [("--config", &common.config), ("--data-dir", &common.data_dir)] {
        if let Some(path) = path {
            let path = std::path::absolute(path)?;
            options.extend([name.to_owned(), path.to_string_lossy().into_owned()]);
        }
    }
    options.extend(common.url.iter().flat_map(|url| ["--url".to_owned(), url.clone()]));
    Ok(options)
}

/// The rule that brings a session back when no client is there.
fn wake(setup: &Setup, path: PathBuf) -> Option<Piece> {
    let Wake { client, command, env } = setup.wake.as_ref()?;
    let mut fields = json!({"match": format!("{client}*"), "command": command});
    for (name, value) in *env {
        fields["env"][name] = json!(value);
    }
    let edits = vec![Edit::Default { path: vec!["wake", client], fields }];
    Some(Piece { path, what: "the wake command", edits })
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
    let before = content(&piece.path).map_err(Failure::Refused)?;
    let after = edited(piece, before.as_deref().unwrap_or_default())?;
    if before.as_deref() == Some(after.as_str()) {
        show::line(&format!("{shown}: {} is there already", piece.what));
        return Ok(());
    }
    replace(&path, before.as_deref(), &after).with_context(|| format!("{shown} cannot be written"))?;
    show::line(&format!("{shown}: {} written", piece.what));
    Ok(())
}

/// What is in a file; `None` if there is none.
fn content(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
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
    let (new, backup) = (beside(".reveille-new"), beside(".reveille-backup"));
    let _ = fs::remove_file(&new);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // As closed as the old one from the beginning: there may be secrets in it.
    let permissions = before.is_some().then(|| fs::metadata(path)).transpose()?.map(|kept| kept.permissions());
    if let Some(permissions) = &permissions {
        options.mode(permissions.mode());
    }
    let mut file = options.open(&new)?;
    file.write_all(after.as_bytes())?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
        // The first one is from before us.
        if !backup.exists() {
            fs::copy(path, backup)?;
        }
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
