//! Secrets by reference: `${NAME}` is an environment variable, `${file:PATH}` a file. What comes through the API may
//! only name those that the operator allows, or anybody who may configure an agent could read the server's own secrets.

use super::check::Invalid;
use crate::wake::glob;
use std::{env, fs, path::Path};

/// What references may be used.
#[derive(Clone, Copy, Debug)]
pub enum Allowed<'a> {
    All,
    /// Environment variables that match one of these patterns.
    Named(&'a [String]),
}

/// The text with everything it refers to in place.
pub fn resolve(field: &str, text: &str, allowed: Allowed<'_>) -> Result<String, Invalid> {
    let mut resolved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Err(Invalid::new(field, "has `${` without `}`; write ${NAME} for an environment variable"));
        };
        resolved.push_str(before);
        resolved.push_str(&value(field, name.trim(), allowed)?);
        rest = after;
    }
    resolved.push_str(rest);
    Ok(resolved)
}

/// The files that it refers to.
pub fn files(text: &str) -> impl Iterator<Item = &Path> {
    let names = text.split("${").skip(1).filter_map(|after| after.split_once('}').map(|(name, _)| name.trim()));
    names.filter_map(|name| name.strip_prefix("file:")).map(Path::new)
}

fn value(field: &str, name: &str, allowed: Allowed<'_>) -> Result<String, Invalid> {
    if let Allowed::Named(patterns) = allowed
        && (name.starts_with("file:") || !patterns.iter().any(|pattern| glob(pattern, name)))
    {
        let why = format!(
            "refers to `{name}`, which agents from the API may not; the operator allows names with `agents.api_secrets`"
        );
        return Err(Invalid::new(field, why));
    }
    match name.strip_prefix("file:") {
        Some(path) => match fs::read_to_string(path) {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(error) => Err(Invalid::new(field, format!("refers to the file {path}, which cannot be read: {error}"))),
        },
        None => env::var(name)
            .map_err(|_| Invalid::new(field, format!("refers to the environment variable {name}, which is not set"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_referred_to_are_known() {
        let found: Vec<&Path> = files("a ${file:/run/x} ${HOME}${ file:y } ${file:").collect();
        assert_eq!(found, [Path::new("/run/x"), Path::new("y")]);
    }

    #[test]
    fn references_are_put_in_place_or_named() {
        let home = env::var("PATH").expect("set everywhere");
        assert_eq!(resolve("x", "Bearer ${PATH}!", Allowed::All).ok(), Some(format!("Bearer {home}!")));
        let patterns = ["CRM_*".to_owned()];
        for (text, allowed, word) in [
            ("${NOBODY_SET_THIS}", Allowed::All, "NOBODY_SET_THIS"),
            ("${PATH", Allowed::All, "without"),
            ("${file:/nowhere/x}", Allowed::All, "/nowhere/x"),
            ("${PATH}", Allowed::Named(&patterns), "api_secrets"),
            ("${file:/etc/passwd}", Allowed::Named(&patterns), "api_secrets"),
            ("${file:/run/secrets/CRM_TOKEN}", Allowed::Named(&["*".to_owned()]), "api_secrets"),
        ] {
            let refused = resolve("tools[0].headers.x", text, allowed).expect_err(text).to_string();
            assert!(refused.contains(word) && refused.contains("tools[0].headers.x"), "{refused}");
        }
    }
}
