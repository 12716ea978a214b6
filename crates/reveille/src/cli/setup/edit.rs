//! Changing somebody else's configuration file: only what is ours, in place, everything else as it was.

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Map, Value, json, ser::PrettyFormatter};
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// One thing that a file has to say.
#[derive(Clone, Debug)]
pub enum Edit {
    /// These fields of the object at this path; its other fields stay.
    Fields { path: Vec<&'static str>, fields: Value },
    /// These fields of the object at this path are not wanted, if there is one.
    Without { path: Vec<&'static str>, names: Vec<&'static str> },
    /// Only if there is nothing at this path: people tune it.
    Default { path: Vec<&'static str>, fields: Value },
    /// A hook in the list at this path. One whose command mentions `mark` is ours already: it is brought up to date
    /// where it is, with whatever people have put around it.
    Element { path: Vec<&'static str>, mark: String, element: Value },
}

/// The text with all edits in it; the very same text if it says it all already.
pub fn json(text: &str, edits: &[Edit]) -> anyhow::Result<String> {
    let before: Value = match text.trim() {
        "" => json!({}),
        _ => serde_json::from_str(text).context("it is not plain JSON (comments cannot be kept)")?,
    };
    let mut after = before.clone();
    for edit in edits {
        apply(&mut after, edit)?;
    }
    if after == before && !text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let mut out = Vec::new();
    let indent = indent(text);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(&indent));
    after.serialize(&mut serializer)?;
    out.push(b'\n');
    Ok(String::from_utf8(out)?)
}

/// As the file is indented now: by the first line that is.
fn indent(text: &str) -> Vec<u8> {
    let blank = |line: &str| line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).collect::<Vec<u8>>();
    text.lines().map(blank).find(|blank| !blank.is_empty()).unwrap_or_else(|| b"  ".to_vec())
}

fn apply(document: &mut Value, edit: &Edit) -> anyhow::Result<()> {
    match edit {
        Edit::Fields { path, fields } => {
            let object = object_at(document, path)?;
            for (name, value) in fields.as_object().into_iter().flatten() {
                object.insert(name.clone(), value.clone());
            }
        }
        Edit::Without { path, names } => {
            let found = path.iter().try_fold(document, |at, name| at.get_mut(name));
            if let Some(object) = found.and_then(Value::as_object_mut) {
                names.iter().for_each(|name| drop(object.shift_remove(*name)));
            }
        }
        Edit::Default { path, fields } => {
            let object = object_at(document, path)?;
            if object.is_empty() {
                *object = fields.as_object().cloned().unwrap_or_default();
            }
        }
        Edit::Element { path, mark, element } => {
            let (last, above) = path.split_last().context("a list has a name")?;
            let list = object_at(document, above)?.entry(*last).or_insert_with(|| json!([]));
            let Value::Array(list) = list else { bail!("`{}` is not a list", path.join(".")) };
            match list.iter_mut().find_map(|known| ours(known, mark)) {
                Some(known) => known.extend(hook_of(element)),
                None => list.push(element.clone()),
            }
        }
    }
    Ok(())
}

fn object_at<'a>(document: &'a mut Value, path: &[&str]) -> anyhow::Result<&'a mut Map<String, Value>> {
    let mut at = document;
    for name in path {
        let Value::Object(object) = at else { bail!("`{}` is not where an object is expected", path.join(".")) };
        at = object.entry(*name).or_insert_with(|| json!({}));
    }
    at.as_object_mut().with_context(|| format!("`{}` is not an object", path.join(".")))
}

/// The hook whose command has the mark, options aside.
fn ours<'a>(value: &'a mut Value, mark: &str) -> Option<&'a mut Map<String, Value>> {
    match value {
        Value::Object(object) => {
            let command = object.get("command").and_then(Value::as_str).unwrap_or_default();
            if command.ends_with(mark) || command.contains(&format!("{mark} ")) {
                return Some(object);
            }
            object.get_mut("hooks").and_then(|hooks| ours(hooks, mark))
        }
        Value::Array(list) => list.iter_mut().find_map(|value| ours(value, mark)),
        _ => None,
    }
}

/// The hook itself, without the group that some clients put around it.
fn hook_of(element: &Value) -> Map<String, Value> {
    let hook = element["hooks"].get(0).unwrap_or(element);
    hook.as_object().cloned().unwrap_or_default()
}

/// The same for TOML, comments kept.
pub fn toml(text: &str, edits: &[Edit]) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse().context("it is not valid TOML")?;
    for edit in edits {
        let (path, fields, overwrite) = match edit {
            Edit::Without { path, names } => {
                let table = path.iter().try_fold(document.as_table_mut() as &mut dyn TableLike, |at, name| {
                    at.get_mut(name).and_then(Item::as_table_like_mut)
                });
                if let Some(table) = table {
                    names.iter().for_each(|name| drop(table.remove(name)));
                }
                continue;
            }
            Edit::Fields { path, fields } => (path, fields, true),
            Edit::Default { path, fields } => (path, fields, false),
            Edit::Element { .. } => bail!("lists of TOML files are not changed"),
        };
        let table = table_at(document.as_table_mut(), path)?;
        if !overwrite && !table.is_empty() {
            continue;
        }
        for (name, value) in fields.as_object().into_iter().flatten() {
            let wanted: toml_edit::Value = toml_value(value)?;
            let same = table.get(name).and_then(Item::as_value).is_some_and(|kept| plain(kept) == plain(&wanted));
            if !same {
                table.insert(name, Item::Value(wanted));
            }
        }
    }
    Ok(document.to_string())
}

fn table_at<'a>(table: &'a mut Table, path: &[&str]) -> anyhow::Result<&'a mut Table> {
    let mut at = table;
    for (depth, name) in path.iter().enumerate() {
        let mut new = Table::new();
        new.set_implicit(depth + 1 < path.len());
        at = at
            .entry(name)
            .or_insert(Item::Table(new))
            .as_table_mut()
            .with_context(|| format!("`{}` is not a table", path.join(".")))?;
    }
    Ok(at)
}

fn toml_value(value: &Value) -> anyhow::Result<toml_edit::Value> {
    Ok(match value {
        Value::String(text) => text.as_str().into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => number.as_i64().context("a whole number")?.into(),
        Value::Array(list) => {
            let values: Vec<toml_edit::Value> = list.iter().map(toml_value).collect::<Result<_, _>>()?;
            toml_edit::Array::from_iter(values).into()
        }
        Value::Object(fields) => {
            let values = fields.iter().map(|(name, value)| Ok((name.as_str(), toml_value(value)?)));
            toml_edit::InlineTable::from_iter(values.collect::<anyhow::Result<Vec<_>>>()?).into()
        }
        _ => bail!("not written to TOML"),
    })
}

/// Without the spaces and comments around it.
fn plain(value: &toml_edit::Value) -> String {
    match value {
        toml_edit::Value::Array(list) => format!("{:?}", list.iter().map(plain).collect::<Vec<_>>()),
        value => value.clone().decorated("", "").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(command: &str) -> Edit {
        let element = json!({"hooks": [{"type": "command", "command": command}]});
        Edit::Element { path: vec!["hooks", "Stop"], mark: " hook x stop".into(), element }
    }

    #[test]
    fn json_keeps_what_is_there_in_its_order() {
        let text =
            "{\n    \"z\": 1,\n    \"hooks\": {\"Stop\": [{\"command\": \"mine\"}], \"A\": []},\n    \"a\": [1.50]\n}";
        let edits = [
            Edit::Fields { path: vec!["servers", "r"], fields: json!({"command": "r"}) },
            hook("/old/r hook x stop --verbose"),
        ];
        let once = json(text, &edits).expect("written");
        assert_eq!(json(&once, &edits).expect("written"), once, "nothing new the second time");
        let at = |part: &str| once.find(part).unwrap_or_else(|| panic!("{part} in {once}"));
        assert!(at("\"z\"") < at("\"hooks\"") && at("\"hooks\"") < at("\"a\"") && at("\"a\"") < at("\"servers\""));
        assert!(at("mine") < at("/old/r hook") && once.contains("\n    \"z\""), "{once}");
        let newer = json(&once, &[hook("/new/r hook x stop")]).expect("written");
        assert!(!newer.contains("/old/r") && newer.contains("/new/r") && newer.contains("mine"), "{newer}");
        // What people have added to our entry stays.
        let tuned =
            r#"{"hooks":{"Stop":[{"matcher":"m","hooks":[{"command":"theirs"},{"command":"r hook x stop","t":1}]}]}}"#;
        let updated: Value =
            serde_json::from_str(&json(tuned, &[hook("/new/r hook x stop")]).expect("written")).expect("JSON");
        let expected = json!([{"matcher": "m", "hooks": [
            {"command": "theirs"},
            {"command": "/new/r hook x stop", "t": 1, "type": "command"},
        ]}]);
        assert_eq!(updated["hooks"]["Stop"], expected);
        assert!(json("{} // comment", &edits).is_err());
        assert!(json("{\"hooks\": 5}", &edits).is_err());
        assert!(json("{\"hooks\": {\"Stop\": {}}}", &edits).is_err());
    }

    #[test]
    fn toml_keeps_comments_and_tuned_values() {
        let text = "# top\nmodel = \"x\" # why\n\n[mcp_servers.other]\ncommand = 'o'\n";
        let fields = json!({"command": "r", "args": ["mcp"]});
        let edits = [Edit::Fields { path: vec!["mcp_servers", "reveille"], fields: fields.clone() }];
        let once = toml(text, &edits).expect("written");
        assert!(once.starts_with(text), "{once}");
        assert!(once.contains("[mcp_servers.reveille]\ncommand = \"r\"\nargs = [\"mcp\"]"), "{once}");
        assert_eq!(toml(&once, &edits).expect("written"), once);
        let tuned = "[wake.x]\nmatch = \"mine\"\n";
        let edits = [Edit::Default { path: vec!["wake", "x"], fields }];
        assert_eq!(toml(tuned, &edits).expect("written"), tuned);
        assert!(toml("= broken", &edits).is_err());
        let without = [Edit::Without { path: vec!["wake", "x"], names: vec!["match", "other"] }];
        assert_eq!(toml(tuned, &without).expect("written"), "[wake.x]\n");
        assert_eq!(toml("a = 1\n", &without).expect("written"), "a = 1\n", "nothing is made for it");
        assert_eq!(json(r#"{"wake":{"x":{"match":1,"a":2}}}"#, &without).expect("written").matches('"').count(), 6);
    }
}
